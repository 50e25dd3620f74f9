"""From the checked shape of files to a `RuleSet`: names, routes and what holds them together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ratelimit_middleware.rules.adaptive_spec import adaptive_limit, shed_answer
from ratelimit_middleware.rules.chain_spec import chained
from ratelimit_middleware.rules.compile_flows import FlowCompiler
from ratelimit_middleware.rules.compile_limits import LimitCompiler
from ratelimit_middleware.rules.document import Path
from ratelimit_middleware.rules.flow import FlowLimit
from ratelimit_middleware.rules.model import Answer, Limit, Route, Rule, RuleSet
from ratelimit_middleware.rules.names import Names, wire_name
from ratelimit_middleware.rules.part import Part
from ratelimit_middleware.rules.penalty_spec import with_penalty
from ratelimit_middleware.rules.places import is_route, no_route, place_of, taken
from ratelimit_middleware.rules.relate_spec import related_limits, related_routes
from ratelimit_middleware.rules.response_spec import RefusalSpec
from ratelimit_middleware.rules.route import REGEX, parse_route, regexes
from ratelimit_middleware.rules.schema import RuleSpec
from ratelimit_middleware.rules.store_spec import needs_workers
from ratelimit_middleware.rules.words import GrammarError, shown, unknown

__all__ = ["compile_files"]

_MOST_REGEXES = 100
_MOST_NAMES_TOLD = 200
_MOST_GUESSES = 100
_TOO_MANY = (
    f"this is regular expression {_MOST_REGEXES + 1}: each costs every new path a comparison, so a file may"
    f" have {_MOST_REGEXES}; of paths with `{{name}}` and `/**` there may be thousands"
)


def compile_files(parts: Sequence[Part]) -> RuleSet | None:
    """The rules of a file and of those it includes as one set; None when there are findings."""
    compiler = _Compiler(parts)
    limits = [
        compiler.rule(part, ("limits", place), rule)
        for part in parts
        for place, rule in part.spec.limits.items()
    ]
    always = [
        compiler.rule(part, ("always", index), rule)
        for part in parts
        for index, rule in part.spec.always.items()
    ]
    main = parts[0]
    spec = main.spec
    default = compiler.rule(main, ("default",), spec.default) if spec.default else None
    if not default:
        compiler.check_hosts()
    compiler.check_ignored()
    if not spec.default and spec.unmatched_routes == "skip":
        main.refuse(("unmatched_routes",), "there is no `default` whose permits could come back: add one")
    deny, exempt = main.listed(("deny",), spec.deny, folds=True), main.listed(("exempt",), spec.exempt)
    if any(part.findings for part in parts):
        return None
    return RuleSet(
        limits=tuple(rule for rule in limits if rule),
        always=tuple(rule for rule in always if rule),
        default=default,
        store=spec.store.settings,
        headers=spec.response.headers,
        headers_on=spec.response.headers_on,
        expose_cors=spec.response.expose_cors,
        answer=_merged(Answer(), spec.response),
        source=main.document.name,
        case_sensitive=spec.case_sensitive,
        skip_preflight=spec.preflight == "skip",
        ignored=tuple(spec.lint.ignore),
        client=spec.client.settings,
        deny=deny,
        denied=spec.deny.answer if spec.deny else Answer(403),
        exempt=exempt,
        tiers=spec.tiers.source(spec.client.settings) if spec.tiers else None,
        shadow=spec.mode == "shadow",
        shadow_header=spec.response.shadow_header,
    )


class _Compiler:
    """What all rules share: the names taken, and the buckets that several have together."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._file = parts[0].spec
        self._file_answer = _merged(Answer(), self._file.response)
        specs = [rule for part in parts for rule in (*part.spec.limits.values(), *part.spec.always.values())]
        specs += [self._file.default] if self._file.default else []
        # Names that somebody chose are kept free for them, whatever stands above.
        self._names = Names(rule.name for rule in specs if rule.name)
        self._rule_names: dict[str, tuple[Part, Path]] = {}
        self._shapes: dict[tuple[object, ...], tuple[Part, Path]] = {}
        self._regexes = 0
        self._buckets: dict[str, tuple[tuple[Limit, ...], tuple[Part, Path]]] = {}
        store = self._file.store.settings
        self._cannot_divide = store.scheme != "memory" and store.expected_workers is None

    def rule(self, part: Part, path: Path, spec: RuleSpec) -> Rule | None:
        """A rule; None when it is switched off."""
        routes = self._routes(part, path, spec)
        chosen = spec.name or ("" if is_route(path) else str(path[-1]) if path[0] == "limits" else "")
        name = chosen or (routes[0].pattern if routes else self._own_name(part, path))
        first = self._rule_names.setdefault(name, (part, path))
        if first[0] is not part or first[1] != path:
            message = taken(name, spec, routes, place_of(first, part))
            part.refuse((*path, "name"), message, at_key=not spec.name)
        elif is_route(path) and not spec.name:
            self._check_shape(part, path, spec, routes[0])
        if spec.unlimited and path[0] == "always":
            part.refuse(
                (*path, "limit"), "`unlimited` does not belong in `always`, which counts every request"
            )
        if spec.on_error == "fallback" and self._cannot_divide:
            part.refuse((*path, "on_error"), needs_workers("`on_error: fallback`"))
        limits, flows = self._limits(part, path, spec, routes, name, chosen)
        relate = related_routes(spec, routes, lambda below, message: part.refuse((*path, *below), message))
        self._check_regexes(part, (*path, "relate"), spec, relate)
        if spec.mode == "none":
            return None
        return Rule(
            name,
            routes,
            limits,
            spec.unlimited,
            self._own_answer(spec),
            tuple(spec.hosts),
            spec.case_sensitive,
            spec.preflight == "skip" if spec.preflight else None,
            spec.since,
            part.document.place(path),
            flows,
            relate,
        )

    def _limits(
        self, part: Part, path: Path, spec: RuleSpec, routes: tuple[Route, ...], name: str, chosen: str
    ) -> tuple[tuple[Limit, ...], tuple[FlowLimit, ...]]:
        """The limits of a rule: on requests, and on what flows within them."""
        base = chosen or wire_name(name)
        compiler = LimitCompiler(
            path,
            spec,
            lambda below, message: part.refuse((*path, *below), message),
            self._file.timezone,
            self._any_case(spec),
            self._file.client,
            path[0] == "default" and self._file.unmatched_routes == "skip",
            part.listed((*path, "exempt"), spec.exempt),
            part.tiers(path, spec, self._parts[0]),
        )
        id_base = f"bucket:{spec.bucket}" if spec.bucket else name
        limits = compiler.limits(
            id_base,
            lambda number: self._names.policy(base, number, chosen=bool(spec.name)),
        )
        flows = FlowCompiler(compiler, limits, routes).flows(
            id_base,
            lambda kind, number: self._names.policy(f"{base}-{kind}", number, chosen=False),
        )
        if spec.adaptive:
            name = self._names.policy(base, 0, chosen=bool(spec.name))
            exempt = part.listed((*path, "exempt"), spec.exempt)
            limits = (adaptive_limit(spec.adaptive, id_base, name, exempt, shadow=spec.mode == "shadow"),)
        if spec.chain:
            limits = chained(limits, spec.chain, any_case=self._any_case(spec))
            flows = chained(flows, spec.chain, any_case=self._any_case(spec))
        if spec.relate:
            limits = related_limits(limits, lambda below, message: part.refuse((*path, *below), message))
        for key in ("penalty", "enforce"):
            if key in spec.model_fields_set and spec.mode == "shadow":
                part.refuse((*path, key), f"a rule that only watches refuses nobody: leave `{key}` out")
        if spec.penalty:
            name = self._names.policy(f"{base}-penalty", 0, chosen=False)
            limits = with_penalty(limits, spec.penalty, name)
        if spec.bucket:
            both = (*limits, *flows)
            first, place = self._buckets.setdefault(spec.bucket, (both, (part, path)))
            if [_shared(limit) for limit in first] != [_shared(limit) for limit in both]:
                part.refuse(
                    (*path, "bucket"),
                    f"the bucket {shown(spec.bucket)} is shared with the rule {place_of(place, part)},"
                    " which has other limits, keys or mode: rules that share a bucket have the same",
                )
        return limits, flows

    def _routes(self, part: Part, path: Path, spec: RuleSpec) -> tuple[Route, ...]:
        """The routes of a rule, each once."""
        if path[0] != "limits":
            for key in ("routes", "methods", "hosts", "case_sensitive"):
                if key in spec.model_fields_set:
                    part.refuse((*path, key), f"`{key}` is for rules of `limits`", at_key=True)
            return ()
        texts = [str(path[1])] if is_route(path) else []
        if not texts and not spec.routes:
            part.refuse(path, no_route(str(path[1])), at_key=True)
        routes: dict[str, Route] = {}
        for text in (*texts, *spec.routes):
            route = parse_route(text)
            if route.methods and spec.methods:
                part.refuse(
                    (*path, "methods"), f"{shown(text)} names methods already: write them in one place"
                )
            elif spec.methods:
                route = parse_route(f"{','.join(spec.methods)} {route.pattern}")
            routes[route.pattern] = route
        self._check_regexes(part, path, spec, list(routes.values()))
        return tuple(routes.values())

    def _check_regexes(self, part: Part, path: Path, spec: RuleSpec, routes: Sequence[Route]) -> None:
        """Refuse regular expressions that are too many, or that work in one spelling only."""
        for route in routes:
            if not route.path.startswith(REGEX):
                continue
            self._regexes += 1
            if self._regexes == _MOST_REGEXES + 1:
                part.refuse(path, _TOO_MANY, at_key=True)
            try:
                regexes(route.path, any_case=self._any_case(spec))
            except GrammarError as error:
                part.refuse(path, f"with `case_sensitive: false` {error}", at_key=True)

    def _any_case(self, spec: RuleSpec) -> bool:
        return not (self._file.case_sensitive if spec.case_sensitive is None else spec.case_sensitive)

    def _check_shape(self, part: Part, path: Path, spec: RuleSpec, route: Route) -> None:
        """Refuse a route that differs from another in the names of its parameters alone."""
        pattern = re.sub(r"\{\w+", "{", route.pattern)
        first = self._shapes.setdefault((pattern, tuple(sorted(spec.hosts))), (part, path))
        if first[1] != path:
            message = (
                f"the route {shown(route.pattern)} is the one {place_of(first, part)}, but for"
                " a parameter's name: put the limits of both in one rule"
            )
            part.refuse(path, message, at_key=True)

    def _own_name(self, part: Part, path: Path) -> str:
        """What a rule without name and route is called: `default`, or `always-1`, … over all files."""
        if path[0] == "default":
            return "default"
        before = self._parts[: self._parts.index(part)]
        return f"always-{sum(len(other.spec.always) for other in before) + int(path[1]) + 1}"

    def _own_answer(self, spec: RuleSpec) -> Answer | None:
        """What the rule says of its own, the rest as the file has it."""
        if spec.response is None and spec.status is None and not spec.adaptive:
            return None
        common = shed_answer(self._file_answer) if spec.adaptive else self._file_answer
        answer = _merged(common, spec.response) if spec.response else common
        return replace(answer, status=spec.status) if spec.status else answer

    def check_hosts(self) -> None:
        """Refuse rules for some hosts where nothing holds requests that name another."""
        for part in self._parts:
            for place, rule in part.spec.limits.items():
                if rule.hosts:
                    part.refuse(
                        ("limits", place, "hosts"),
                        "a client may name any other host and go free: add a `default` to the file",
                        at_key=True,
                    )
                    return

    def check_ignored(self) -> None:
        """Refuse to ignore warnings about a rule that there is not."""
        if any(part.findings for part in self._parts):
            return  # the rule may be one of those that were refused
        unmet = [
            (index, name)
            for index, (_, name) in enumerate(self._file.lint.ignore)
            if name and name not in self._rule_names
        ]
        # Each guess compares with all names, and each message shows them.
        tells = len(self._rule_names) <= _MOST_NAMES_TOLD and len(unmet) <= _MOST_GUESSES
        for index, name in unmet:
            message = unknown("rule", name, self._rule_names) if tells else f"unknown rule {shown(name)}"
            self._parts[0].refuse(("lint", "ignore", index), message)


def _merged(common: Answer, spec: RefusalSpec) -> Answer:
    """`common` with what `spec` says."""
    said = spec.model_fields_set & RefusalSpec.model_fields.keys()
    return replace(common, **{key: getattr(spec, key) for key in said})


def _shared(limit: Limit) -> tuple[object, ...]:
    """What limits of one bucket have in common."""
    penalty = limit.penalty and limit.penalty.algorithm
    return limit.algorithm, limit.key, limit.choose, limit.shadow, limit.exempt, limit.chain, penalty
