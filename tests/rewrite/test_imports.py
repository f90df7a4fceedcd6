"""Where new imports go, and when none is needed."""

from __future__ import annotations

import re

import pytest

from tests.rewrite.script import Script, add_import

NEW = "from ampify_runtime import amp\n"

# The import is expected where the arrow stands.
HEADERS = [
    "import os\nimport torch\n->import numpy\n\nx = 1\n",
    "import torch\nimport torch.nn as nn\nfrom torch import optim\n->from model import Net\n",
    "from torchvision import datasets\nimport numpy, torch.nn\n->import os\n",
    "import torch  # why\n->\n# more\nimport os\n",
    "from torch import (\n    nn,\n    optim,\n)  # c\n->\nx = 1\n",
    "import torch; import os\n->x = 1\n",
    "import os\nimport numpy as np\n->\nx = f()\nimport torch\n",
    "import os\nfrom . import data\n->\ndef f(): pass\nimport torch\n",
    "import os\n->class A: pass\n",
    '"""Doc."""\n->\ndef f(): pass\n',
    '"""Doc."""\nfrom __future__ import annotations\n->\nx = f()\n',
    "from __future__ import annotations\nimport os\n->\nx = 1\n",
    "from __future__ import annotations, division; import os\n->\nx = 1\n",
    '"""Doc."""; x = 1\n->y = f()\n',
    "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n# License.\n->x = f()\n",
    "#!/usr/bin/env python\n\n# About f.\n->def f(): pass\n",
    "->x = f()\n",
    "->@d\ndef f(): pass\n",
    "\n\n->x = f()\n",
    "# only a comment\n->",
    # Constants and settings may stand between imports.
    "import os\nos.environ['A'] = '1'\n__version__ = '1'\nimport torch\n->x = f()\n",
    "import sys\nsys.path.insert(0, '..')\nimport matplotlib as m\nm.use('Agg')\nimport torch\n->x = f()\n",
    "import os\nSEED: int = 3\nDEVICE: str\nimport torch\n->x = f()\n",
    "import random\nrandom.seed(0)\nimport torch\n->torch.manual_seed(0)\n",
    "import os\n->seed(0)\nimport torch\n",
    "import os\n->x = [f(y)]\nimport torch\n",
    "import os\n->assert x\nimport torch\n",
    # So may choices between imports; the new one never goes inside them.
    "try:\n    import torch\nexcept ImportError:\n    torch = None\nimport os\n->x = 1\n",
    "import torch\n->try:\n    import apex\nexcept ImportError:\n    apex = None\nx = 1\n",
    "import os\ntry: import a\nexcept ImportError: pass\nimport torch\n->x = 1\n",
    "import os\nif os.name == 'nt':\n    import a\nelse:\n    import b\nfrom torch import nn\n->x = 1\n",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING: from a import B\nimport torch\n->",
    "import os\n->if os.name == 'nt':\n    x = 1\nimport torch\n",
    "import os\n->for x in y: import a\nimport torch\n",
    "import os\n->with x: import a\nimport torch\n",
    # A star may bring the name along, so that the import has to follow it.
    "import torch\nfrom utils import *\n->import os\n",
    "from utils import *\nimport torch\n->import os\n",
    "import torch\nimport os\nif os.name: import a\nfrom utils import *\n->from x import y\n",
]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("text", HEADERS)
def test_an_import_goes_into_the_header(text: str, newline: str) -> None:
    text = text.replace("\n", newline)
    script = Script(text.replace("->", ""))
    new = NEW.replace("\n", script.source().newline)
    if re.search("->(@|def )", text):
        new += 2 * script.source().newline
    assert script.edited(add_import()) == text.replace("->", new)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch", "import torch\nfrom ampify_runtime import amp"),
        ('"""Doc."""', '"""Doc."""\nfrom ampify_runtime import amp'),
        ("# c", "# c\nfrom ampify_runtime import amp"),
        ("x = f()", "from ampify_runtime import amp\nx = f()"),
    ],
)
def test_a_file_without_a_final_line_end_stays_without(before: str, after: str) -> None:
    assert Script(before).edited(add_import()) == after


@pytest.mark.parametrize(
    "text",
    [
        "from ampify_runtime import amp\nimport torch\n",
        "import torch\nfrom ampify_runtime import (optimizers, amp)  # c\n",
        "import torch; from ampify_runtime import amp\n",
        "def f(): pass\nfrom ampify_runtime import amp\n",
    ],
)
def test_an_import_that_is_there_is_not_added(text: str) -> None:
    assert Script(text).edited(add_import()) == text


@pytest.mark.parametrize(
    "line",
    [
        "import ampify_runtime.amp\n",
        "from ampify_runtime import amp as other\n",
        "from ampify_runtime import *\n",
        "from .ampify_runtime import amp as amp_\n",
        "from ampify_runtime import optimizers\n",
        "from lib.ampify_runtime import amp as lib_amp\n",
    ],
)
def test_a_like_import_is_not_the_one(line: str) -> None:
    assert Script("import torch\n" + line).edited(add_import()).count(NEW) == 1


def test_an_import_inside_a_block_is_not_the_one() -> None:
    script = Script("import torch\ndef f():\n    from ampify_runtime import amp\n")
    assert script.edited(add_import()) == "import torch\n" + NEW + "def f():\n    from ampify_runtime import amp\n"


def test_names_and_relative_modules_are_written_as_asked() -> None:
    script = Script("import torch\nfrom ..lib import amp as a\n")
    imports = [
        add_import("..lib", "amp", "a"),
        add_import("ampify_runtime", "amp", "ampify_amp"),
        add_import("x.y", "z"),
    ]
    expected = (
        "import torch\nfrom ampify_runtime import amp as ampify_amp\nfrom x.y import z\nfrom ..lib import amp as a\n"
    )
    assert script.edited(*imports, imports[1]) == expected


def test_the_import_precedes_the_first_use_in_the_module() -> None:
    script = Script("import os\nx = 1\nimport torch\nx = 2\nfrom torch import nn\n")
    edited = script.edited(script.after("x = 2", "x = amp.f(x)"), add_import())
    assert edited.index(NEW) == edited.index("x = 2\n") - len(NEW)
    edited = script.edited(script.replace("1", "amp.f(x)"), add_import())
    assert edited.startswith("import os\n" + NEW + "x = amp.f(x)")
    late = Script("import os\nx = amp\nimport torch\n")
    assert late.edited(add_import(asname="other")).endswith("import torch\nfrom ampify_runtime import amp as other\n")
    import ampify.rewrite

    assert ampify.rewrite.rewrite(late.source(), [add_import()]) == "import os\n" + NEW + "x = amp\nimport torch\n"


def test_an_import_after_the_first_use_does_not_count() -> None:
    script = Script("import torch\nx = f()\nfrom ampify_runtime import amp\n")
    edited = script.edited(script.replace("f()", "amp.f()"), add_import())
    assert edited == "import torch\n" + NEW + "x = amp.f()\nfrom ampify_runtime import amp\n"


def test_an_import_can_take_the_place_of_another() -> None:
    script = Script("import os\nfrom apex import amp  # c\nimport sys\nx = 1\n")
    assert (
        script.edited(script.delete("from apex import amp"), add_import())
        == "import os\nimport sys\n" + NEW + "x = 1\n"
    )
    script = Script("import torch\nfrom ampify_runtime import amp\nx = 1\n")
    edited = script.edited(script.delete("from ampify_runtime import amp"), add_import())
    assert edited == "import torch\n" + NEW + "x = 1\n"
