"""Owns the cast lists: which functions autocast runs in which type, as data; names are those of torch's operators."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

LISTS_VARIABLE = "AMPIFY_CAST_LISTS"
TORCH, APEX = "torch", "apex"


@dataclass(frozen=True, slots=True)
class CastList:
    """What runs in the reduced type (allow), in fp32 (deny), in the widest type given (promote), or not at all."""

    allow: frozenset[str]
    deny: frozenset[str]
    promote: frozenset[str]
    banned: frozenset[str]

    def kind_of(self, operator: str) -> str | None:
        """`allow`, `deny`, `promote` or `banned`; None for an operator that runs in the type it is given."""
        return next((kind for kind, operators in self.kinds() if operator in operators), None)

    def kinds(self) -> Iterator[tuple[str, frozenset[str]]]:
        """The four lists with their names."""
        yield "allow", self.allow
        yield "deny", self.deny
        yield "promote", self.promote
        yield "banned", self.banned


def _list(allow: str, deny: str, promote: str, banned: str = "") -> CastList:
    return CastList(*(frozenset(text.split()) for text in (allow, deny, promote, banned)))


# torch 2.13, aten/src/ATen/autocast_mode.h and .cpp.
_TORCH_CUDA = _list(
    allow="""
        _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
        cudnn_convolution cudnn_convolution_transpose _cudnn_rnn prelu addmm addmv addr matmul einsum mm mv
        linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell
        lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention scaled_dot_product_attention
    """,
    deny="""
        acos asin cosh erfinv exp expm1 log log10 log1p log2 reciprocal rsqrt sinh tan pow softplus layer_norm
        native_layer_norm rms_norm group_norm frobenius_norm nuclear_norm norm cosine_similarity poisson_nll_loss
        cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
        margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
        binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d _upsample_nearest_exact1d
        upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d
        upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
        prod softmax log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum
    """,
    promote="addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add",
    banned="binary_cross_entropy",
)
_TORCH_CPU = _list(
    allow="""
        conv1d conv2d conv3d bmm mm linalg_vecdot baddbmm addmm _addmm_activation addbmm linear _convolution matmul
        conv_tbc mkldnn_rnn_layer conv_transpose1d conv_transpose2d conv_transpose3d prelu scaled_dot_product_attention
        _native_multi_head_attention
    """,
    deny="""
        avg_pool3d binary_cross_entropy grid_sampler polar prod quantile nanquantile stft cdist trace view_as_complex
        cholesky cholesky_inverse cholesky_solve inverse lu_solve orgqr ormqr pinverse max_pool3d max_unpool2d
        max_unpool3d adaptive_avg_pool3d reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d
        replication_pad3d mse_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss poisson_nll_loss
        smooth_l1_loss cross_entropy_loss l1_loss huber_loss margin_ranking_loss soft_margin_loss triplet_margin_loss
        multi_margin_loss ctc_loss kl_div multilabel_margin_loss binary_cross_entropy_with_logits fft_fft fft_ifft
        fft_fft2 fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn fft_hfft
        fft_ihfft linalg_cond linalg_matrix_rank linalg_solve linalg_cholesky linalg_svdvals linalg_eigvals
        linalg_eigvalsh linalg_inv linalg_householder_product linalg_tensorinv linalg_tensorsolve
        fake_quantize_per_tensor_affine geqrf _lu_with_info qr svd triangular_solve fractional_max_pool2d
        fractional_max_pool3d adaptive_max_pool3d multilabel_margin_loss_forward linalg_qr linalg_cholesky_ex
        linalg_svd linalg_eig linalg_eigh linalg_lstsq linalg_inv_ex grid_sampler_2d _grid_sampler_2d_cpu_fallback
        grid_sampler_3d
    """,
    promote="stack cat index_copy",
)
# apex/amp/lists at e13873de, its functions by the operators that do their work.
_APEX = _list(
    allow="""
        conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc linear prelu addmm addmv addr
        matmul mm mv addbmm baddbmm bmm rnn_relu rnn_tanh gru lstm rnn_relu_cell rnn_tanh_cell gru_cell lstm_cell
    """,
    deny="""
        upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
        _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
        upsample_bicubic2d _upsample_bicubic2d_aa grid_sampler softplus log_softmax softmax gelu layer_norm group_norm
        cosine_similarity poisson_nll_loss cosine_embedding_loss cross_entropy_loss hinge_embedding_loss kl_div l1_loss
        mse_loss margin_ranking_loss multilabel_margin_loss multi_margin_loss nll_loss nll_loss2d nll_loss_nd
        binary_cross_entropy_with_logits smooth_l1_loss soft_margin_loss triplet_margin_loss ctc_loss
        acos asin cosh erfinv exp expm1 log log10 log2 reciprocal rsqrt sinh tan pow cumprod cumsum dist norm
        frobenius_norm nuclear_norm linalg_vector_norm linalg_matrix_norm prod std sum var renorm
    """,
    promote="addcdiv addcmul atan2 cross bilinear dot add sub rsub div mul eq equal ge gt le lt ne cat stack",
    banned="binary_cross_entropy",
)

TORCH_LISTS: Mapping[str, CastList] = MappingProxyType({"cpu": _TORCH_CPU, "cuda": _TORCH_CUDA})
APEX_LISTS: Mapping[str, CastList] = MappingProxyType({"cpu": _APEX, "cuda": _APEX})
LISTS: Mapping[str, Mapping[str, CastList]] = MappingProxyType({TORCH: TORCH_LISTS, APEX: APEX_LISTS})

# Listed by torch for CUDA, and known to apex without being listed: under apex's lists they run in the type given.
# On the CPU torch lists what has no kernels in reduced precision, which apex never met: that stays.
NOT_LISTED_BY_APEX: Mapping[str, frozenset[str]] = MappingProxyType(
    {"cpu": frozenset(), "cuda": frozenset("log1p logsumexp cdist pdist huber_loss".split())}
)

# torch casts these by casting what they are made of.
DONE_BY_PARTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {"cpu": frozenset({"cat", "stack"}), "cuda": frozenset("rnn_relu rnn_tanh gru lstm cat stack".split())}
)

# Forms that write to their first argument. apex let those of its allow list follow its type, and refused those of its
# deny list in float16. torch's own promotion does the rest.
MATCH_SELF_IN_APEX = frozenset("addmm_ addmv_ addr_ addbmm_ baddbmm_".split())
IN_FULL_IN_APEX = frozenset(
    f"{operator}_"
    for operator in """
        acos asin cosh erfinv exp expm1 log log10 log2 reciprocal rsqrt sinh tan pow cumprod cumsum renorm
    """.split()
)


def read_lists(value: Any) -> str:
    """The name of lists; for None, what the environment says, else `"torch"`. Raises ValueError for no such name."""
    where = "amp.initialize: cast_lists"
    if value is None or value == "None":
        value = os.environ.get(LISTS_VARIABLE, "").strip() or TORCH
        where = f"the environment variable {LISTS_VARIABLE}"
    if value in LISTS:
        return str(value)
    raise ValueError(f'{where} is {value!r}; use "torch" (those of torch.autocast) or "apex" (those of apex.amp)')
