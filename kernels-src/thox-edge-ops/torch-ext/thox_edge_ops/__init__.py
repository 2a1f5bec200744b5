"""Six fused decode operators for the Llama, Qwen 3 and Gemma 3 families.

Every operator takes float32, float16 or bfloat16 tensors, computes in float32
and rounds each stored value once, to nearest even. The result of a row does
not depend on the other rows, the strides or the number of threads.

``reference`` holds the same functions written with torch's own operators,
``layers`` the classes that ``kernels.kernelize`` puts into a model.
"""

from . import layers, reference
from .functions import (
    cpu_isa,
    cpu_isa_choices,
    fused_add_rms_norm,
    gelu_tanh_and_mul,
    qk_norm_rope,
    rms_norm,
    rotary_embedding,
    silu_and_mul,
)

__all__ = [
    "cpu_isa",
    "cpu_isa_choices",
    "fused_add_rms_norm",
    "gelu_tanh_and_mul",
    "layers",
    "qk_norm_rope",
    "reference",
    "rms_norm",
    "rotary_embedding",
    "silu_and_mul",
]
