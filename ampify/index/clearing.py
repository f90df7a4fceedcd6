"""Whether a `zero_grad` surely clears what it may clear: one object, or all that a loop goes through."""

from __future__ import annotations

from ampify.index.events import Event
from ampify.index.flow import Flow
from ampify.index.moments import Spot
from ampify.index.names import Names
from ampify.index.syntax import children, path_to
from ampify.index.values import Container, Value, Values
from ampify.model import facts as f


class Clearing:
    """Answers for the events of a trace, as it goes."""

    def __init__(self, flow: Flow, names: Names) -> None:
        self.flow = flow
        self.names = names

    def sure(self, event: Event) -> bool:
        """Whether a `zero_grad` clears every optimizer that its event names."""
        assert isinstance(event.node, f.Call)
        if not isinstance(event.node.func, f.Attribute):
            return False
        receivers = self.flow.evaluate(event.node.func.value, event.frame)
        whole = children(event.node.func.value)[:1]
        if any(receivers & self.flow.evaluate(base, event.frame) for base in whole):
            return False  # a part of a module stands for all of it
        found = frozenset(v for r in receivers for v in self.meant(r))
        return self.names.single(found, Spot.of(event)) == found or self.goes_through_all(event, receivers)

    def meant(self, receiver: Value) -> frozenset[Value]:
        """The object behind a receiver: itself, or the module in a wrapper."""
        entities = self.names.entities
        return frozenset((receiver,)) if entities.is_optimizer(receiver) else entities.unwrapped(receiver)

    def goes_through_all(self, event: Event, receivers: Values) -> bool:
        """Whether the receiver is the variable of a loop over a list that holds just these objects."""
        assert isinstance(event.node, f.Call)
        assert isinstance(event.node.func, f.Attribute)
        name = event.node.func.value
        for block, index in path_to(self.flow.scope(event.frame).body, event.statement.span):
            loop = block[index]
            if isinstance(loop, f.For) and isinstance(loop.target, f.Name) and isinstance(name, f.Name):
                lists = self.flow.evaluate(loop.iterable, event.frame)
                if loop.target.id == name.id and self.holds_all(lists, receivers):
                    return True
        return False

    def holds_all(self, lists: Values, receivers: Values) -> bool:
        """Whether values are one list, which surely holds all of some objects."""
        containers = [v for v in lists if isinstance(v, Container)]
        if len(containers) != 1 or self.selective(containers[0]):
            return False
        return self.flow.elements(lists) == receivers

    def selective(self, container: Container) -> bool:
        """Whether a list may hold only some of what it is known to be given."""
        path, span = container.place
        text = self.flow.files[path].text(span)
        if " if " in text or "filter" in text:
            return True
        store = self.flow.store
        fields = [field for field in store.fields(container) if field.startswith("[")]
        given = [store.read(container, field, None) for field in fields if field != "[*]"]
        given += [values for field in fields for values in store.writes(container, field).values()]
        return any(len(values) > 1 for values in given)
