"""Ask Kubernetes' own libraries a few hundred random questions and keep the answers in kubernetes.json.

Needs Go: `cd tests/model/golden/oracle && go mod tidy && go build -o /tmp/oracle .`, then
`python -m tests.model.golden.regenerate /tmp/oracle [seed] [factor]`. With `--check` nothing is written and the answers
are compared at once, which makes a fuzzer of it: any seed, any factor.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Question = dict[str, Any]
GOLDEN = Path(__file__).parent / "kubernetes.json"
SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]
EXPONENTS = ["e3", "E3", "e-3", "e+2", "e0", "e12", "e-9", "e-12", "i", "K", "mi", "b", "e", "ee3", "e1.5"]
LONGEST = {"T": 3, "e12": 3, "G": 6}
AMOUNTS = {"cpu": ["0", "100m", "1", "1500m", "0.5m", "1.0001", "333u"]}
OTHER_AMOUNTS = ["0", "1", "128Mi", "1.5Gi", "1e3", "100m", "0.3", "3"]
RESOURCES = ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi"]
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]


class Questions:
    """Random questions of every kind."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def maybe(self, make: Callable[[], Any], chance: float) -> Any:
        return make() if self.rng.random() < chance else None

    def quantity(self) -> Question:
        """Never negative and never beyond int64 in milli, where upstream's readings go astray."""
        suffix = self.rng.choice(SUFFIXES + EXPONENTS)
        longest = next((digits for start, digits in LONGEST.items() if suffix.startswith(start)), 8)
        whole = "".join(self.rng.choices("0123456789", k=self.rng.randint(1, longest)))
        fraction = "".join(self.rng.choices("0001259", k=self.rng.choice([0, 1, 3, 6, 9, 12])))
        return {"about": "quantity", "text": f"{whole}{self.rng.choice(['', '.' + fraction])}{suffix}"}

    def label_selector(self) -> Question:
        if self.rng.random() < 0.3:
            parts = ["a", "b", "x/y", "in", "notin", "=", "==", "!=", "!", ",", "(", ")", ">", "<", "5", " ", "-"]
            text = "".join(self.rng.choices(parts, k=self.rng.randint(0, 8)))
        else:
            text = self.rng.choice([",", " , "]).join(self.label_term() for _ in range(self.rng.randint(1, 3)))
        keys = self.rng.sample(["a", "b", "in", "x/y"], self.rng.randint(0, 4))
        return {"about": "label selector", "text": text, "set": {k: self.rng.choice(["a", "b", "", "5"]) for k in keys}}

    def label_term(self) -> str:
        key, value = self.rng.choice(["a", "b", "in", "x/y"]), self.rng.choice(["a", "b", "", "5"])
        listed = ",".join(self.rng.choices(["a", "b", "", "5"], k=self.rng.randint(0, 3)))
        forms = [key, f"!{key}", f"{key}={value}", f"{key}=={value}", f"{key}!={value}", f"{key}>3", f"{key}<{value}"]
        return self.rng.choice([*forms, f"{key} in ({listed})", f"{key} notin ({listed})"])

    def field_selector(self) -> Question:
        parts = ["b", "=", "==", "!=", "!", ",", "\\", "x", " ", "\\,", "\\=", "\\\\"]
        text = "a" + "".join(self.rng.choices(parts, k=self.rng.randint(0, 7))).replace(",", ",a")
        keys = self.rng.sample(["a", "ab", "ax"], self.rng.randint(0, 3))
        values = ["", "b", "x", "a,b", "x=b", "\\"]
        return {"about": "field selector", "text": text, "set": {key: self.rng.choice(values) for key in keys}}

    def resources(self) -> dict[str, str]:
        names = self.rng.sample(RESOURCES, self.rng.randint(0, 4))
        return {name: self.rng.choice(AMOUNTS.get(name, OTHER_AMOUNTS)) for name in names}

    def requests(self) -> Question:
        containers = [self.container(f"c{number}") for number in range(self.rng.randint(1, 3))]
        init = [self.container(f"i{number}") for number in range(self.rng.randint(0, 4))]
        for container in init:
            if self.rng.random() < 0.5:
                container["restartPolicy"] = "Always"
        pending = {"type": "PodResizePending", "status": "True", "reason": self.rng.choice(["Infeasible", "Deferred"])}
        status = {
            "containerStatuses": [
                self.container_status(container) for container in containers if self.rng.random() < 0.6
            ],
            "initContainerStatuses": [
                self.container_status(container) for container in init if self.rng.random() < 0.6
            ],
            "resources": self.maybe(lambda: {"requests": self.resources()}, 0.3),
            "allocatedResources": self.maybe(self.resources, 0.3),
            "conditions": self.maybe(lambda: [pending], 0.3),
        }
        spec = {
            "containers": containers,
            "initContainers": init,
            "overhead": self.maybe(self.resources, 0.3),
            "resources": self.maybe(lambda: {"requests": self.maybe(self.resources, 0.8)}, 0.4),
        }
        return {"about": "requests", "pod": {"spec": spec, "status": status}}

    def container(self, name: str) -> Question:
        return {"name": name, "resources": {"requests": self.maybe(self.resources, 0.8)}}

    def container_status(self, container: Question) -> Question:
        actual = self.maybe(lambda: {"requests": self.maybe(self.resources, 0.6)}, 0.7)
        return {"name": container["name"], "resources": actual, "allocatedResources": self.maybe(self.resources, 0.5)}

    def affinity(self) -> Question:
        terms = [self.node_term() for _ in range(self.rng.randint(0, 3))]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        selector = self.maybe(lambda: {self.rng.choice("ab"): self.rng.choice(["a", "5"])}, 0.2)
        keys = self.rng.sample(["a", "b", "zone"], self.rng.randint(0, 3))
        labels = {key: self.rng.choice(["a", "5", "1", "-4", "x"]) for key in keys}
        spec = {"nodeSelector": selector, "affinity": self.maybe(lambda: {"nodeAffinity": required}, 0.9)}
        node = {"metadata": {"name": self.rng.choice(["n1", "n2"]), "labels": labels}}
        return {"about": "affinity", "pod": {"spec": spec}, "node": node}

    def node_term(self) -> Question:
        fields = [
            {
                "key": "metadata.name",
                "operator": self.rng.choice(["In", "NotIn"]),
                "values": [self.rng.choice(["n1", "n2"])],
            }
            for _ in range(self.rng.choice([0, 0, 1, 2]))
        ]
        if fields and self.rng.random() < 0.1:
            fields[0]["operator"] = "Exists"
        return {"matchExpressions": [self.expression() for _ in range(self.rng.randint(0, 2))], "matchFields": fields}

    def expression(self) -> Question:
        values = {
            "In": ["a", "5"],
            "NotIn": ["a"],
            "Exists": [],
            "DoesNotExist": [],
            "Gt": ["3"],
            "Lt": ["3"],
            "Near": [],
        }
        operator = self.rng.choice(list(values)[:6] if self.rng.random() < 0.95 else list(values))
        odd = self.rng.choice([[], ["-bad-"], ["x", "y"], ["1"]])
        chosen = odd if self.rng.random() < 0.1 else values[operator]
        return {"key": self.rng.choice(["a", "b", "zone"]), "operator": operator, "values": chosen}

    def taint(self) -> Question:
        taint = {
            "key": self.rng.choice("ab"),
            "value": self.rng.choice(["", "x", "5", "07", "-2"]),
            "effect": self.rng.choice(EFFECTS),
        }
        toleration = {
            "key": self.rng.choice(["", "a", "b"]),
            "operator": self.rng.choice(["", "Equal", "Exists", "Gt", "Lt", "Near"]),
            "value": self.rng.choice(["", "x", "5", "3", "+4"]),
            "effect": self.rng.choice(["", *EFFECTS]),
        }
        return {"about": "taint", "taint": taint, "toleration": toleration, "comparisons": self.rng.random() < 0.5}


def ask(oracle: str, questions: list[Question]) -> list[Question]:
    lines = "\n".join(json.dumps(question) for question in questions)
    done = subprocess.run([oracle], input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [question | answer for question, answer in zip(questions, answers, strict=True)]


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    oracle, seed, factor = arguments[0], int((*arguments, "1", "1")[1]), int((*arguments, "1", "1")[2])
    make = Questions(random.Random(seed))
    kinds = [
        (make.quantity, 150),
        (make.label_selector, 150),
        (make.field_selector, 100),
        (make.requests, 80),
        (make.affinity, 120),
        (make.taint, 120),
    ]
    answered = ask(oracle, [make_sample() for make_sample, count in kinds for _ in range(count * factor)])
    if "--check" in sys.argv:
        from tests.model.test_golden import ours

        wrong = [case for case in answered if ours(case) != (None if case["refused"] else case["answer"])]
        print(f"{len(answered) - len(wrong)} of {len(answered)} answers agree")
        sys.exit("\n".join(json.dumps(case) for case in wrong[:20]))
    GOLDEN.write_text("[\n" + ",\n".join(json.dumps(case, sort_keys=True) for case in answered) + "\n]\n")


if __name__ == "__main__":
    main()
