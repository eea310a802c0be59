"""What a run is: steps, passes, roles, phases, requests, round trips, totals."""
