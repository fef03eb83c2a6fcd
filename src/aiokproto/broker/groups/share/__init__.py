"""Share groups (KIP-932): who belongs to one, and who reads which partition beside whom. State machines without I/O."""
