"""What Fetch needs besides the log: fetch sessions (KIP-227), and waiting until ``min_bytes`` are available."""
