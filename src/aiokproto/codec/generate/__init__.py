"""Writes the source of decoders and encoders. Only text here; ``compiler`` turns it into functions."""

from aiokproto.codec.generate.decoder import DecoderWriter
from aiokproto.codec.generate.encoder import EncoderWriter

__all__ = ["DecoderWriter", "EncoderWriter"]
