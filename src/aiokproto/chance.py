"""Where chance comes from: jitter, partitions for records without a key, session ids."""

from random import SystemRandom

CHANCE = SystemRandom()
"""Not the functions of :mod:`random`: an application that seeds those gets its own numbers, whatever a client does in
between, and a forked process does not repeat its parent's."""
