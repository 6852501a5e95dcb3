"""docs/openapi.yaml, read strictly: references, schemas, and the routes that it names."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import jsonschema
import yaml

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
Json = Any


class NoDuplicates(yaml.SafeLoader):
    """YAML where a key given twice is a mistake, not the last one's."""


def _mapping(loader: NoDuplicates, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    twice = {k for k in keys if keys.count(k) > 1}
    if twice:
        raise ValueError(f"{node.start_mark.name}:{node.start_mark.line + 1}: given twice: {sorted(map(str, twice))}")
    return {loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value}


NoDuplicates.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def deepest(problem: jsonschema.ValidationError) -> jsonschema.ValidationError:
    """Of a value that is none of several kinds: what is wrong with it as the kind that it says it is."""
    branches: dict[Any, list[jsonschema.ValidationError]] = {}
    for one in problem.context or []:
        branches.setdefault(one.schema_path[0], []).append(one)
    for errors in branches.values():
        if not any(e.absolute_path and e.absolute_path[-1] == "kind" for e in errors):
            return deepest(errors[0])
    return problem


class Spec:
    """The document and what tests ask of it."""

    def __init__(self, path: Path = ROOT / "docs" / "openapi.yaml") -> None:
        self.document: Json = yaml.load(path.read_text(), NoDuplicates)

    def resolve(self, value: Json) -> Json:
        while isinstance(value, dict) and "$ref" in value:
            found: Json = self.document
            for part in value["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            value = found
        return value

    def operations(self) -> Iterator[tuple[str, str, Json]]:
        """(method, path, operation), methods in capitals."""
        for path, item in self.document["paths"].items():
            for method in METHODS:
                if method in item:
                    yield method.upper(), path, item[method]

    def routes(self, served: bool) -> set[tuple[str, str]]:
        """Those that are served as of now, or those that aren't yet."""
        return {(m, p) for m, p, o in self.operations() if bool(o.get("x-not-yet")) != served}

    def check(self, value: Json, schema: Json) -> str:
        """Empty if the value is as the schema says, else the first thing that is wrong."""
        whole = {"allOf": [schema], "components": self.document["components"]}
        for problem in jsonschema.Draft202012Validator(whole).iter_errors(value):
            best = deepest(problem)
            return f"{best.json_path}: {best.message[:300]}"
        return ""

    def answer_schema(self, method: str, path: str, status: int) -> Json:
        """Of an answer: its JSON, or its text; KeyError if the document has no such answer."""
        responses = self.document["paths"][path][method.lower()]["responses"]
        chosen = self.resolve(responses.get(str(status)) or responses["default"])
        content = chosen["content"]
        return (content.get("application/json") or next(iter(content.values())))["schema"]

    def problems(self) -> Iterator[str]:
        """What is wrong with the document itself."""
        yield from self._references(self.document, "#")
        ids = [o.get("operationId") for _, _, o in self.operations()]
        yield from (f"operationId {i} is missing or given twice" for i in set(ids) if not i or ids.count(i) > 1)
        tags = {t["name"] for t in self.document["tags"]}
        for method, path, operation in self.operations():
            where = f"{method} {path}"
            if not operation.get("summary") or not operation.get("responses"):
                yield f"{where}: no summary or no responses"
            if not set(operation.get("tags", [])) or not set(operation["tags"]) <= tags:
                yield f"{where}: tags are {operation.get('tags')}"
            given = self.document["paths"][path].get("parameters", []) + operation.get("parameters", [])
            in_path = {p["name"] for p in map(self.resolve, given) if p["in"] == "path"}
            wanted = {part[1:-1] for part in path.split("/") if part.startswith("{")}
            if in_path != wanted:
                yield f"{where}: parameters in the path are {sorted(in_path)}, not {sorted(wanted)}"
        for name, schema in self.document["components"]["schemas"].items():
            try:
                jsonschema.Draft202012Validator.check_schema(schema)
            except jsonschema.exceptions.SchemaError as problem:
                yield f"schema {name}: {problem.message}"
                continue
            for example in schema.get("examples", []):
                wrong = self.check(example, {"$ref": f"#/components/schemas/{name}"})
                if wrong:
                    yield f"an example of {name} is not one: {wrong}"

    def _references(self, value: Json, where: str) -> Iterator[str]:
        if isinstance(value, dict):
            if "$ref" in value:
                try:
                    self.resolve(value)
                except (KeyError, TypeError):
                    yield f"{where}: {value['$ref']} leads nowhere"
            for key, inner in value.items():
                yield from self._references(inner, f"{where}/{key}")
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                yield from self._references(inner, f"{where}/{number}")
