"""Puts the operators into transformers' Qwen 3 and Gemma 3 models, at their seams.

fuse() packs the projections of q, k and v, and of gate and up, into one weight each, and
gives layers and attention new forward methods: one prologue call on views of the packed
projection, one gate call, and every residual addition fused with the norm that follows
it, across layers too. Everything else stays transformers' own code.
"""

import types

import torch
import torch.nn.functional as F
from transformers.models.gemma3 import modeling_gemma3 as gemma3
from transformers.models.qwen3 import modeling_qwen3 as qwen3


def angle_table(model, layer_type, rows):
    """cos_sin_cache with exactly the angles that the model computes, rounded as it does."""
    x = model.embed_tokens.weight[:1]
    positions = torch.arange(rows, device=x.device)[None]
    typed = isinstance(model.rotary_emb, gemma3.Gemma3RotaryEmbedding)
    cos, sin = model.rotary_emb(x, positions, layer_type) if typed else model.rotary_emb(x, positions)
    half = cos.shape[-1] // 2
    return torch.cat([cos[0, :, :half], sin[0, :, :half]], -1).contiguous()


def fuse(causal_lm, ops, rows=4096):
    model = causal_lm.model
    gemma = isinstance(model.layers[0], gemma3.Gemma3DecoderLayer)
    offset = 1.0 if gemma else 0.0
    gate = ops.gelu_tanh_and_mul if gemma else ops.silu_and_mul
    interfaces = gemma3 if gemma else qwen3
    tables = {}
    carried = {}  # what the last addition and norm left for the next layer, or for the last norm

    def norm_of(module):
        return module.weight.data, module.eps if gemma else module.variance_epsilon

    def attention(self, x, attention_mask, position_ids, past_key_values, kwargs):
        shape = x.shape[:-1]
        qkv = F.linear(x, self.packed)
        q, k, v = qkv.split(self.sizes, -1)
        q, k, v = (t.unflatten(-1, (-1, self.head_dim)) for t in (q, k, v))
        (qw, eps), (kw, _) = self.norms
        ops.qk_norm_rope(position_ids.expand(shape), q, k, qw, kw, eps, offset, self.angles, self.head_dim)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, self.layer_idx)
        attend = interfaces.ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, interfaces.eager_attention_forward
        )
        out, _ = attend(self, q, k, v, attention_mask, dropout=0.0, scaling=self.scaling, sliding_window=self.sliding_window, **kwargs)
        return self.o_proj(out.reshape(*shape, -1))

    def layer(self, hidden_states, position_embeddings=None, attention_mask=None, position_ids=None, past_key_values=None, use_cache=None, **kwargs):
        # hidden_states is the residual stream; the operators below write into it.
        if self.is_first:
            x = ops.rms_norm(hidden_states, *self.input_norm, offset)
        else:
            x = carried.pop("x")
        x = attention(self.self_attn, x, attention_mask, position_ids, past_key_values, kwargs)
        if gemma:
            x = ops.rms_norm(x, *self.after_attention, offset)
        ops.fused_add_rms_norm(x, hidden_states, *self.before_mlp, offset)
        x = self.mlp.down_proj(gate(F.linear(x, self.mlp.packed)))
        if gemma:
            x = ops.rms_norm(x, *self.after_mlp, offset)
        ops.fused_add_rms_norm(x, hidden_states, *self.next_norm, offset)
        carried["x"] = x
        return hidden_states

    layers = list(model.layers)
    for i, block in enumerate(layers):
        a, m = block.self_attn, block.mlp
        a.packed = torch.cat([p.weight.data for p in (a.q_proj, a.k_proj, a.v_proj)])
        a.sizes = [p.weight.shape[0] for p in (a.q_proj, a.k_proj, a.v_proj)]
        a.norms = norm_of(a.q_norm), norm_of(a.k_norm)
        if a.layer_type not in tables:
            tables[a.layer_type] = angle_table(model, a.layer_type, rows)
        a.angles = tables[a.layer_type]
        m.packed = torch.cat([m.gate_proj.weight.data, m.up_proj.weight.data])
        block.is_first = i == 0
        block.input_norm = norm_of(block.input_layernorm)
        if gemma:
            block.after_attention = norm_of(block.post_attention_layernorm)
            block.before_mlp = norm_of(block.pre_feedforward_layernorm)
            block.after_mlp = norm_of(block.post_feedforward_layernorm)
        else:
            block.before_mlp = norm_of(block.post_attention_layernorm)
        block.next_norm = norm_of(layers[i + 1].input_layernorm if i + 1 < len(layers) else model.norm)
        block.forward = types.MethodType(layer, block)
    model.norm.forward = lambda hidden_states: carried.pop("x")
    return causal_lm
