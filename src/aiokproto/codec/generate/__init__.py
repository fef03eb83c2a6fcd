"""Generates the source code of decoders and encoders, which ``compiler`` turns into functions."""

from aiokproto.codec.generate.decoder import DecoderWriter
from aiokproto.codec.generate.encoder import EncoderWriter

__all__ = ["DecoderWriter", "EncoderWriter"]
