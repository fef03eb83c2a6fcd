"""``python -m aiokproto.codec``: look up, decode and encode the protocol."""
