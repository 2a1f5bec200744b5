"""What torch's stable ABI has no words for, done in Python.

A library for the stable ABI cannot ask whether a tensor requires a gradient, cannot
count a write for autograd, and cannot tell the dispatcher to pass autograd by. In the
other form of this package the native code does all three, and this module nothing.
"""

import torch
from torch.autograd.graph import increment_version
from torch.library import Library, fallthrough_kernel

from ._ops import add_op_namespace_prefix, ops
from .fakes import refuse_gradients

# Only a library for the stable ABI has this operator.
IS_STABLE = hasattr(ops, "stable_abi")

_autograd = Library(add_op_namespace_prefix("").removesuffix("::"), "IMPL") if IS_STABLE else None


def completed(op, call):
    """``call`` of the operator ``op``, with what is missing from it before and after.

    Which tensors may not require a gradient, and which are written, is what the schema
    says; positions have integers and never a gradient.
    """
    if not IS_STABLE:
        return call
    name = op._schema.name.split("::")[1]
    _autograd.impl(name, fallthrough_kernel, "Autograd")
    tensors = [i for i, a in enumerate(op._schema.arguments) if a.type.kind() == "TensorType"]
    written = [i for i, a in enumerate(op._schema.arguments) if a.alias_info is not None and a.alias_info.is_write]

    if not written:

        def returns(*args):
            if torch.is_grad_enabled():
                refuse_gradients(name, *(args[i] for i in tensors))
            return call(*args)

        return returns

    # The tensors that an operator writes stand side by side.
    first, last = written[0], written[-1] + 1

    def writes(*args):
        if torch.is_grad_enabled():
            refuse_gradients(name, *(args[i] for i in tensors))
        call(*args)
        increment_version(args[first:last])

    return writes
