"""Regular expressions that clients send, in the syntax of RE2 as Kafka has it: text in, yes or no out.

Python's own would do harm: a pattern like ``(a+)+$`` takes it time that grows exponentially with the name. Here it is
at most proportional to the name's length times the pattern's, and so there can be neither references nor assertions
about what lies ahead or behind.
"""

from aiokproto.broker.patterns.automaton import Pattern, compile_pattern
from aiokproto.broker.patterns.syntax import PatternError

__all__ = ["Pattern", "PatternError", "compile_pattern"]
