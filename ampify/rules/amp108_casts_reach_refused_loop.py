"""Another training loop of the same run is not migrated, and would train with the casts of this one.

What it does
------------
Refuses a loop after whose `amp.initialize` another loop, which is refused, trains in the same run of the program.

Why it matters
--------------
`amp.initialize` casts for all that the thread runs from then on. The other loop would compute in half precision as
well, without loss scaling: small gradients of it would become zero, and nothing would say so.

Before
------
    import torch

    model = torch.nn.Linear(4, 1)
    first = torch.optim.Adam(model.parameters())
    for step in range(3):
        first.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        first.step()

    last = torch.optim.LBFGS(model.parameters())


    def closure():
        last.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        loss.backward()
        return loss


    last.step(closure)

Hint
----
See to the other loop first, or put it under `with amp.disable_casts():`, which keeps it in float32. `--target native`
casts inside the loops that it migrates alone, so that the others stay as they are.
"""

from __future__ import annotations

CODE = "AMP108"
NAME = "casts-reach-refused-loop"
