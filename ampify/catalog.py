"""What ampify knows of torch and its surroundings: frozen tables of names and what they mean to a training loop."""

from __future__ import annotations

from functools import cache

TORCH_OPTIMIZERS = frozenset(
    "Adadelta Adagrad Adam AdamW SparseAdam Adamax ASGD LBFGS NAdam RAdam RMSprop Rprop SGD Adafactor Muon".split()
)
# Class names of optimizers that other packages offer; matched on the last part of a dotted name.
OTHER_OPTIMIZERS = frozenset(
    """AdaBound AdaBoundW AdaBelief AdamP AdamW8bit Adam8bit AdaMod Apollo BertAdam FusedAdam FusedLAMB FusedSGD Lamb
    Lion LARS LARC Lookahead Madgrad NovoGrad NvNovoGrad PlainRAdam QHAdam Ranger RangerLars RMSpropTF SGDP SGDW
    Shampoo Sophia Yogi ScheduledOptim""".split()
)
# Optimizers around another one that keep fp32 masters and have a backward of their own.
MASTER_OPTIMIZERS = frozenset(
    f"ampify_runtime.{module}.FP16_Optimizer"
    for module in (
        "fp16_utils",
        "fp16_utils.fp16_optimizer",
        "optimizers",
        "optimizers.fp16_optimizer",
        "contrib.optimizers",
        "contrib.optimizers.fp16_optimizer",
    )
)
# Casts in the whole process from then on, and returns a handle that scales.
OLDER_AMP = "ampify_runtime.amp.init"
OPTIMIZER_FACTORIES = frozenset(
    {
        "timm.optim.create_optimizer",
        "timm.optim.create_optimizer_v2",
        "timm.optim.optim_factory.create_optimizer",
        "timm.optim.optim_factory.create_optimizer_v2",
        "transformers.AdamW",
        "transformers.optimization.AdamW",
        "transformers.Adafactor",
    }
)
OPTIMIZER_BASES = frozenset({"torch.optim.Optimizer", "torch.optim.optimizer.Optimizer"})
# Class methods by which frameworks make a module of the class that they are asked of.
CONSTRUCTOR_METHODS = frozenset({"from_pretrained", "from_config", "load_from_checkpoint"})
AUTOGRAD_BASES = frozenset(
    {"torch.autograd.Function", "torch.autograd.function.Function", "torch.autograd.function.InplaceFunction"}
)
MODULE_BASES = frozenset(
    {
        "torch.nn.Module",
        "torch.nn.modules.Module",
        "torch.nn.modules.module.Module",
        "torch.nn.Sequential",
        "torch.nn.ModuleList",
        "torch.nn.ModuleDict",
        "transformers.PreTrainedModel",
        "transformers.modeling_utils.PreTrainedModel",
    }
)
# Wrappers that hold the module they are given and call it.
WRAPS = frozenset(
    {
        "torch.nn.DataParallel",
        "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.data_parallel.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
        "torch.nn.parallel.DistributedDataParallelCPU",
        "ampify_runtime.parallel.DistributedDataParallel",
        "torch.compile",
        "torch.jit.script",
    }
)
# What shares out the parameters of a module over processes, by its last name, so that each sees some gradients.
SHARDING = frozenset({"FullyShardedDataParallel", "parallelize_module"})
SHARDING_PACKAGES = ("torch.distributed.", "fairscale.")
# Functions that return the module they are given, changed in place or rebuilt around the same parameters.
SAME_MODULE = frozenset(
    {
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm",
        "torch.nn.modules.SyncBatchNorm.convert_sync_batchnorm",
        "ampify_runtime.parallel.convert_syncbn_model",
        "torch.nn.utils.weight_norm",
        "torch.nn.utils.spectral_norm",
        "torch.nn.utils.parametrizations.spectral_norm",
        "torch.nn.utils.parametrizations.weight_norm",
    }
)
# The same for functions that convert it to half precision, or do their part in that.
HALVED = frozenset(
    f"ampify_runtime.{module}.{name}"
    for module in ("fp16_utils", "fp16_utils.fp16util")
    for name in ("BN_convert_float", "FP16Model", "convert_network", "network_to_half")
)
MODULE_PACKAGES = (
    "torch.nn.",
    "torchvision.models.",
    "timm.",
    "transformers.",
    "torch.hub.load",
    "segmentation_models_pytorch.",
    "efficientnet_pytorch.",
    "torch_geometric.nn.",
    "ampify_runtime.normalization.",
    "ampify_runtime.mlp.",
    "ampify_runtime.fused_dense.",
)
# What is no module in a package of modules, by words in the names of its classes.
NO_MODULES = tuple(
    """Tokenizer Config Trainer Arguments Processor Extractor Callback Collator Pipeline Scheduler Dataset Dataloader
    DataLoader Output Criteria Transforms Weights""".split()
)
CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm"})
CLIP_MODULES = ("torch.nn.utils", "torch.nn.utils.clip_grad")
OLD_CLIP = "clip_grad_norm"
BINARY_CROSS_ENTROPY = frozenset({"binary_cross_entropy"})
BCE_LOSSES = frozenset({"torch.nn.BCELoss", "torch.nn.modules.loss.BCELoss"})
GRADIENT_FUNCTIONS = frozenset({"torch.autograd.grad"})
BACKWARD_FUNCTIONS = frozenset({"torch.autograd.backward"})
# Methods of tensors and modules that have a function called with gradients during the backward.
GRADIENT_HOOKS = frozenset(
    """register_hook register_post_accumulate_grad_hook register_backward_hook register_full_backward_hook
    register_full_backward_pre_hook""".split()
)

PARAMETER_CLASSES = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
PARAMETER_METHODS = frozenset(
    {"parameters", "named_parameters", "modules", "named_modules", "children", "named_children"}
)
SAME_OBJECT_METHODS = frozenset(
    """to cuda cpu xpu npu mps float double half bfloat16 type train eval requires_grad_ apply share_memory to_empty
    compile""".split()
)
DEVICE_METHODS = frozenset({"to", "cuda", "cpu", "xpu", "npu", "mps", "type", "double", "half", "float", "to_empty"})
# Methods of a tensor whose result carries no gradient.
DETACHING_METHODS = frozenset(
    """detach item numpy tolist argmax argmin size dim numel sign eq ne gt lt ge le long int bool topk_indices
    data_ptr backward""".split()
)
DETACHED_ATTRIBUTES = frozenset({"data", "shape", "device", "dtype", "grad", "grad_fn", "requires_grad", "ndim"})

# (root module, rule that reports it): a file that imports one of these trains by other means.
FRAMEWORKS = (
    ("pytorch_lightning", "lightning-loop"),
    ("lightning", "lightning-loop"),
    ("accelerate", "accelerate-loop"),
    ("deepspeed", "deepspeed-loop"),
)
TRAINERS = ("transformers.Trainer", "transformers.trainer.Trainer", "transformers.Seq2SeqTrainer")
# What a framework lends a script that leaves its loop to it: classes to derive from or to make, and functions to call.
FRAMEWORK_ENTRIES = {
    "lightning-loop": frozenset({"LightningModule", "Trainer", "Fabric"}),
    "accelerate-loop": frozenset({"Accelerator"}),
    "trainer-loop": frozenset({"Trainer", "Seq2SeqTrainer"}),
    "deepspeed-loop": frozenset({"initialize"}),
}
# (packages, names): what is called where the precision of a framework is chosen.
LIGHTNING = ("lightning", "pytorch_lightning")
FRAMEWORK_SETTINGS = {
    "lightning-loop": (LIGHTNING, frozenset({"Trainer", "Fabric"})),
    "trainer-loop": (("transformers",), frozenset({"TrainingArguments", "Seq2SeqTrainingArguments"})),
}
# Arguments of Lightning's Trainer that 2.0 no longer has: with one of them, the code is for 1.x.
LIGHTNING_1_ARGUMENTS = frozenset(
    """gpus tpu_cores ipus num_processes resume_from_checkpoint auto_select_gpus auto_scale_batch_size auto_lr_find
    terminate_on_nan weights_summary checkpoint_callback stochastic_weight_avg flush_logs_every_n_steps log_gpu_memory
    progress_bar_refresh_rate amp_backend amp_level use_amp""".split()
)
# What fastai makes a learner with.
FASTAI_LEARNERS = frozenset(
    """Learner cnn_learner vision_learner unet_learner text_classifier_learner language_model_learner tabular_learner
    collab_learner""".split()
)
TORCH_AMP = ("torch.cuda.amp", "torch.amp", "torch.autocast", "torch.cpu.amp")
APEX = "apex"
RUNTIME = "ampify_runtime"
# torch modules that are usually bound to a name of their own; a star import brings these.
CANONICAL = (
    ("torch.nn.modules.loss.", "torch.nn."),
    ("torch.optim.adam.", "torch.optim."),
    ("torch.optim.adamw.", "torch.optim."),
    ("torch.optim.sgd.", "torch.optim."),
    ("torch.optim.rmsprop.", "torch.optim."),
    ("torch.nn.parallel.data_parallel.", "torch.nn.parallel."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
)
# A module whose class uses none of these words neither trains nor loses in its own code: it need not be looked into.
TRAINING_WORDS = (
    frozenset(
        """backward step zero_grad grad autograd optim optimizer optimizers optimiser BCELoss binary_cross_entropy half
    double state_dict load_state_dict clip_grad_norm_ clip_grad_norm clip_grad_value_""".split()
    )
    | GRADIENT_HOOKS
    | {name for name in TORCH_OPTIMIZERS if len(name) > 2}
)
# What makes a class of tuples whose fields have names, and objects that have the fields they are given by keyword.
NAMED_TUPLE = "collections.namedtuple"
NAMESPACES = frozenset(
    {"types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict", "munch.Munch", "addict.Dict", "box.Box"}
)
# Functions that hand another function its arguments, by position of the function and of the argument tuple.
SPAWNERS = {
    "torch.multiprocessing.spawn": ("fn", "args", 1),
    "torch.multiprocessing.start_processes": ("fn", "args", 1),
    "torch.multiprocessing.Process": ("target", "args", 0),
    "multiprocessing.Process": ("target", "args", 0),
    "threading.Thread": ("target", "args", 0),
}
TRANSPARENT = frozenset(
    """list tuple set sorted reversed iter next zip enumerate filter map itertools.chain itertools.chain.from_iterable
    chain tqdm.tqdm tqdm.auto.tqdm tqdm.trange sum max min dict itertools.cycle""".split()
)


# Packages and builtins whose functions make nothing that trains: numbers, text, plain tensors.
PLAIN_PACKAGES = frozenset(
    """numpy math os sys time random re json pickle logging shutil string struct datetime glob csv warnings cv2 PIL
    scipy sklearn matplotlib pandas skimage six urllib subprocess einops""".split()
)
PLAIN_BUILTINS = frozenset(
    """abs all any bool bytes callable chr divmod float format hash hex id input int isinstance issubclass len open ord
    pow print range repr round slice str type""".split()
)
PLAIN_TORCH = frozenset({"cuda", "random", "distributed", "backends", "linalg", "fft", "special", "initial_seed"})
MAKERS_IN_TORCH = frozenset({"load", "compile", "save", "no_grad", "device", "autocast"})


@cache
def is_plain(dotted: str) -> bool:
    """Whether calling a dotted name outside the project gives nothing that the flow needs to follow."""
    root, _, rest = dotted.partition(".")
    if root in PLAIN_PACKAGES or dotted in PLAIN_BUILTINS:
        return True
    if root != "torch" or not rest or dotted.startswith(TORCH_AMP):
        return False
    first = rest.partition(".")[0]
    if first in PLAIN_TORCH or dotted.startswith(("torch.nn.functional.", "torch.nn.init.")):
        return True
    return "." not in rest and rest[:1].islower() and rest not in MAKERS_IN_TORCH


@cache
def is_optimizer_class(dotted: str) -> bool:
    """Whether a dotted name outside the project is a class or factory of optimizers."""
    last = dotted.rpartition(".")[2]
    if dotted.startswith("torch.optim.") and ".lr_scheduler" not in dotted:
        return last in TORCH_OPTIMIZERS or last == "*"
    return last in OTHER_OPTIMIZERS or last in TORCH_OPTIMIZERS or dotted in OPTIMIZER_FACTORIES | MASTER_OPTIMIZERS


def is_scheduler(dotted: str) -> bool:
    """Whether a dotted name outside the project makes a learning-rate scheduler."""
    last = dotted.rpartition(".")[2].lower()
    return ".lr_scheduler." in dotted or "scheduler" in last or "schedule" in last or last.endswith("lr")


def is_loss_class(dotted: str) -> bool:
    """Whether a dotted name outside the project is a loss module of torch (it has no parameters to train)."""
    return dotted.startswith("torch.nn.") and dotted.endswith("Loss")


@cache
def is_module_class(dotted: str) -> bool:
    """Whether a dotted name outside the project is a module class or a factory of modules."""
    if is_loss_class(dotted) or dotted in WRAPS | SAME_MODULE | HALVED:
        return False
    if dotted.startswith(
        ("torch.nn.utils", "torch.nn.functional", "torch.nn.init", "torch.nn.parameter", "torch.nn.Parameter")
    ):
        return False
    last = dotted.rpartition(".")[2]
    if dotted.startswith("torch.nn.") and not (last[:1].isupper() or last == "*"):
        return False  # such as torch.nn.Module.train
    if dotted.startswith("transformers.") and not any(part[:1].isupper() for part in dotted.split(".")):
        return False  # such as transformers.get_linear_schedule_with_warmup
    return dotted.startswith(MODULE_PACKAGES) and not any(word in dotted for word in NO_MODULES)


@cache
def is_known(dotted: str) -> bool:
    """Whether the catalog gives a dotted name a meaning of its own."""
    last = dotted.rpartition(".")[2]
    return (
        dotted in WRAPS
        or dotted in MODULE_BASES | AUTOGRAD_BASES
        or dotted in OPTIMIZER_BASES | MASTER_OPTIMIZERS
        or (is_optimizer_class(dotted) and dotted.startswith("torch.optim."))
        or (dotted.startswith("torch.nn.") and last[:1].isupper())
    )


@cache
def canonical(dotted: str) -> str:
    """The usual public spelling of a dotted name; what apex names is the runtime's, which has its names from there."""
    if dotted.startswith(f"{APEX}."):
        return RUNTIME + dotted[len(APEX) :]
    for prefix, usual in CANONICAL:
        if dotted.startswith(prefix):
            return usual + dotted[len(prefix) :]
    return dotted
