"""`python3 -m rpcwire`."""

from rpcwire.cli import main

if __name__ == "__main__":
    main()
