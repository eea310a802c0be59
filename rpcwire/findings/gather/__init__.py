"""What findings need beyond the accounts, gathered while a capture is read, in bounded memory."""
