"""What Fetch requests need beside the log: sessions, and waiting for news."""
