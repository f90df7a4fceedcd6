"""A training loop is in the mixed precision of NVIDIA apex, whose `amp` is gone from its releases.

What it does
------------
With `--target native`, makes a `GradScaler` where `amp.initialize` was called, has it scale what `amp.scale_loss`
scaled, and clips the model's parameters where those of `amp.master_params` were. Forward, step and checkpoints are seen
to by the rules for loops in full precision (AMP226, AMP228, AMP229). What decided on `amp.initialize` decides on the
scaler, and autocast asks the scaler. The state of apex's amp in an old checkpoint is read still. All files that run
together leave apex together; where one place cannot, all stay.

A loop on `fp16_utils.FP16_Optimizer` leaves likewise: its optimizer is the one inside, `clip_master_grads` clips the
model's parameters, and what was cast to half precision, the model and what it is given, stays float32. Where one such
cast, or one use of the optimizer, is not understood, AMP514 refuses the loop.

Why it matters
--------------
apex must be built for the CUDA of each machine, and its current version has no `amp` at all.

Before
------
    import torch
    from apex import amp

    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1", loss_scale=128.0)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4, device="cuda")).mean()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        optimizer.step()

After
-----
    import torch

    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=128.0, growth_interval=2**31 - 1)
    for step in range(3):
        optimizer.zero_grad()
        with torch.autocast(device_type="cuda", dtype=torch.float16):
            loss = model(torch.ones(2, 4, device="cuda")).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

Fix safety
----------
Safe at `O1`. `O2` keeps its parameters in float32 from now on, which the finding says; `O3` has no equal, and becomes
`O1` with `--unsafe` only. A static scale is halved where gradients overflow, and that step is left out: apex would have
taken it. What `FP16_Optimizer` saved is not read; evaluation, which no autocast is around, computes in float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ampify.model.apex import ApexGroup
from ampify.model.apex_loop import Block, Masters, MastersClip, Start, State
from ampify.model.edit import Delete, Edit, Fix, InsertAfter, InsertBefore, Replace
from ampify.model.finding import Finding
from ampify.model.project import Project, TrainingLoop
from ampify.model.settings import Settings
from ampify.rules.apex_core import Core, core
from ampify.rules.apex_options import MASTERS, Options, masters_options, options
from ampify.rules.refusal import refusals
from ampify.rules.scaling import Spelling

CODE = "AMP513"
NAME = "apex-amp-loop"
TARGET = "native"
MESSAGE = "this training loop cannot leave apex's amp"
HINT = "write it out by hand, or use --target runtime, where amp goes by the same names"


def check(project: Project, settings: Settings) -> Iterator[Finding]:
    """The findings on every program that uses apex's amp: what becomes of it, or why it stays."""
    yield from refusals(project, CODE, NAME, MESSAGE, HINT)
    for group in project.apex:
        found = core(project, settings, group)
        if found.kept is not None:
            yield from _held(group, found)
        for loop in found.loops:
            yield from _loop(project, settings, group, found, loop)
        yield from _changes(project, settings, found)
        for anchor, edits in found.decided.items():
            if edits:
                message = (
                    "apex casts arguments here; torch's custom_fwd does so under autocast, and turns that off inside"
                )
                yield Finding(CODE, NAME, anchor, message, fix=Fix(edits, group=found.group))


def _held(group: ApexGroup, found: Core) -> Iterator[Finding]:
    assert found.kept is not None
    anchor, reason = found.kept
    message = f"what runs together here stays on NVIDIA apex: {reason}"
    # Other files say for themselves that they wait for this one (AMP512).
    for name in dict.fromkeys((found.group, *group.loops)):
        yield Finding(CODE, NAME, anchor, message, HINT, refuses=True, loop=name)


def _loop(project: Project, settings: Settings, group: ApexGroup, found: Core, loop: TrainingLoop) -> Iterator[Finding]:
    assert loop.apex is not None
    for start in loop.apex.starts:
        yield _start(project, settings, group, found, start)
    for block in loop.apex.blocks:
        yield _block(project, settings, found, block)
    for masters in loop.apex.masters:
        yield _masters(project, settings, found, masters)
    for state in loop.apex.states:
        yield _state(project, settings, found, state)


def _changes(project: Project, settings: Settings, found: Core) -> Iterator[Finding]:
    plans = [loop.apex for loop in found.loops if loop.apex is not None]
    # Programs that share a file have the same to change there.
    for change in dict.fromkeys(change for plan in plans for change in plan.changes):
        edit: Edit = Replace(change.anchor, change.code) if change.code else Delete(change.anchor)
        yield Finding(CODE, NAME, change.anchor, change.message, fix=Fix((edit,), group=found.group))
    for clip in dict.fromkeys(clip for plan in plans for clip in plan.clips):
        yield _clip(project, settings, found, clip)


def _start(project: Project, settings: Settings, group: ApexGroup, found: Core, start: Start) -> Finding:
    mention = next(m for file in group.files for m in file.mentions if m.call == start.call)
    quote = project.files[start.call.path].quote
    masters = mention.dotted.endswith(MASTERS)
    told = masters_options(mention, quote) if masters else options(mention, quote)
    if not isinstance(told, Options):
        message = f"{MESSAGE}: {told}"
        return Finding(CODE, NAME, start.call, message, HINT, refuses=True, loop=found.group)
    spelling = Spelling.of(project, settings, start.before)
    asked = [part for part in (start.condition, *told.enabled) if part]
    enabled = _all_of(asked) if asked else start.device.on
    arguments = [spelling.code(start.device.kind), *told.arguments, *((f"enabled={enabled}",) if enabled else ())]
    code = f"{start.scaler} = {spelling.torch('torch.amp', 'GradScaler')}({', '.join(arguments)})"
    name = MASTERS if masters else "amp.initialize"
    message = " ".join((f"{name} is NVIDIA apex's; autocast casts, and a GradScaler scales.", *told.remarks))
    edits = (*spelling.imports, *_begun(start, spelling.code(code)))
    return Finding(CODE, NAME, start.call, message, fix=Fix(edits, told.applicability, group=found.group))


def _begun(start: Start, code: str) -> Iterator[Edit]:
    if start.alone:
        yield from (InsertAfter(start.before, code), Delete(start.before))
        return
    rest = start.rebinding
    if start.before == start.statement:
        yield InsertBefore(start.statement, f"{code}\n{rest}" if rest else code)
    else:
        yield InsertBefore(start.before, code)
        if rest:
            yield InsertBefore(start.statement, rest)
    yield Delete(start.statement)


def _all_of(parts: Iterable[str]) -> str:
    """The condition that all of several hold, as a bool."""
    # A level that decides on amp.initialize, and is given to it, is asked about once, whatever the quotes.
    asked = list({part.replace("'", '"'): part for part in parts}.values())
    if len(asked) == 1:
        return asked[0] if _is_bool(asked[0]) else f"bool({asked[0]})"
    text = " and ".join(f"({part})" if " or " in part else part for part in asked)
    return text if all(map(_is_bool, asked)) else f"bool({text})"


def _is_bool(text: str) -> bool:
    compares = any(sign in text for sign in ("==", "!=", "<", ">", " is ", " in "))
    return (
        text in ("True", "False")
        or text.startswith("not ")
        or (compares and " or " not in text and " and " not in text)
    )


def _block(project: Project, settings: Settings, found: Core, block: Block) -> Finding:
    spelling = Spelling.of(project, settings, block.statement)
    code = block.code
    if block.inline is not None:
        header = spelling.autocast(block.inline.device)
        code = f"{header}\n    {block.inline.name} = {block.inline.loss_text}\n{code}"
    edits: tuple[Edit, ...] = (InsertAfter(block.statement, code), Delete(block.statement))
    message = "apex's amp scales this loss; a GradScaler does"
    return Finding(CODE, NAME, block.backward, message, fix=Fix((*spelling.imports, *edits), group=found.group))


def _masters(project: Project, settings: Settings, found: Core, masters: Masters) -> Finding:
    code = Spelling.of(project, settings, masters.call).code(masters.code)
    message = "without apex's amp the model's parameters are those that the optimizer steps"
    return Finding(CODE, NAME, masters.call, message, fix=Fix((Replace(masters.call, code),), group=found.group))


def _clip(project: Project, settings: Settings, found: Core, clip: MastersClip) -> Finding:
    spelling = Spelling.of(project, settings, clip.call)
    function = spelling.torch("torch.nn.utils", "clip_grad_norm_")
    code = f"{function}({spelling.code(clip.parameters)}, {clip.arguments})"
    message = "these are gradients of parameters in float32, which are their own masters"
    fix = Fix((*spelling.imports, Replace(clip.call, code)), group=found.group)
    return Finding(CODE, NAME, clip.call, message, fix=fix)


def _state(project: Project, settings: Settings, found: Core, state: State) -> Finding:
    message = "this is the state of apex's amp; the scale is the scaler's"
    edits: tuple[Edit, ...] = (Replace(state.call, f"{state.scaler}.state_dict"),)
    if state.statement is not None:
        code = _loading(state, project.files[state.call.path].quote)
        edits = (InsertBefore(state.statement, code), Delete(state.statement))
    return Finding(CODE, NAME, state.call, message, fix=Fix(edits, group=found.group))


def _loading(state: State, quote: str) -> str:
    """The statements that load a scaler's state, or that of apex's amp, whose first scaler they take over."""
    first, scale, age, growth, tracker = (
        f"{quote}{key}{quote}" for key in ("loss_scaler0", "loss_scale", "unskipped", "scale", "_growth_tracker")
    )
    old = f"{growth}: {state.saved}[{scale}], {tracker}: {state.saved}[{age}]"
    return "\n".join(
        (
            f"{state.name} = {state.source}",
            f"if {first} in {state.name}:  # saved by NVIDIA apex",
            f"    {state.saved} = {state.name}[{first}]",
            f"    {state.name} = {{**{state.scaler}.state_dict(), {old}}}",
            f"if {state.name}:  # it is empty where the scaler that saved it was off",
            f"    {state.scaler}.load_state_dict({state.name})",
        )
    )
