"""Share groups' records (KIP-932): who has which, how often it was delivered, and what is kept of it."""
