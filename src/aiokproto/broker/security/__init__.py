"""Who may connect, who they are, and what they may do. All but :mod:`tls` and :mod:`settings` is pure."""
