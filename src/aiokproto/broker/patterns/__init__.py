"""Regular expressions from clients, in the syntax of RE2, which Kafka uses (KIP-848).

Python's ``re`` backtracks: a pattern like ``(a+)+$`` takes time exponential in the length of the name, and would block
the event loop. Here, the time is at most proportional to the length of the name times the size of the pattern. As in
RE2, there are no backreferences and no lookaround: they can't be matched within this bound.
"""

from aiokproto.broker.patterns.automaton import Pattern, compile_pattern
from aiokproto.broker.patterns.syntax import PatternError

__all__ = ["Pattern", "PatternError", "compile_pattern"]
