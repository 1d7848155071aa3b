"""WAS it worth it: load that is counted on the client's side."""
