"""Write the source of decoders and encoders, as text only; ``compiler`` turns it into functions."""

from aiokproto.codec.generate.decoder import DecoderWriter
from aiokproto.codec.generate.encoder import EncoderWriter

__all__ = ["DecoderWriter", "EncoderWriter"]
