"""How much of the broker a client may use. Pure: the time is passed in."""
