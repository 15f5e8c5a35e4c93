"""The settings of a scan: the configuration, changed by the options of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphsafe.config import Config
from graphsafe.files import from_here
from graphsafe.scan.linting.selection import Selection
from graphsafe.scan_request.request import Part, ScanRequest

_COMMAND_LINE = "command line"
Setting = tuple[str, str, str]
"The name of a setting, its value, and where the value comes from."


def settings(part: Part, request: ScanRequest) -> Iterator[Setting]:
    """Yield the settings that apply to a part of a request."""
    configured, config, asked, rulebook = part.configured, part.config, request.asked, part.rulebook
    baseline, cache = part.baseline, part.cache
    source = from_here(str(configured.source)) if configured.source else None
    where = "the folder of the configuration" if source else "the nearest folder that looks like a project"
    yield "project root", str(config.root), where
    yield "configuration", source or "none", "the nearest file at or above the paths"
    yield "baseline", from_here(str(baseline)), "in use" if baseline.exists() else "not found"
    yield "cache", from_here(str(cache)) if cache else "none", "in use" if cache else "not kept"
    codes = Selection.of(config, rulebook).codes
    left_out = sorted(set(rulebook.rules) - codes)
    said = [_COMMAND_LINE] * bool(asked.select or asked.extend_select or asked.ignore)
    said += [source or ""] * (not asked.select and not {"select", "ignore"}.isdisjoint(configured.keys))
    yield "rules", f"{len(codes)} of {len(rulebook.rules)}", " and ".join(said) or "default"
    if left_out:
        few = len(codes) <= len(left_out)
        listed = ", ".join(sorted(codes) if few else left_out) or "none"
        yield "  only" if few else "  all but", listed, " and ".join(said)
    levels = ", ".join(f"{code} {level}" for code, level in configured.levels.items())
    yield "levels", levels or "the rulebook's", _origin("levels", configured)
    yield "fail-level", config.fail_level, _origin("fail-level", configured, bool(asked.fail_level))
    yield "region", config.region or "all", _origin("region", configured, bool(asked.region))
    hot = [
        f"{each.where}:{each.function}{' (compiled)' * each.compiled}{' (step)' * (each.region == 'step')}"
        for each in config.hot_paths
    ]
    excluded = [source or ""] * bool(configured.exclude) + [_COMMAND_LINE] * bool(asked.exclude)
    rows: dict[str, Iterable[str]] = {
        "hot-paths": hot,
        "cold-paths": (f"{each.where}:{each.function}" for each in config.cold_paths),
        "exclude": config.exclude,
        "per-file-ignores": (f"{pattern} {' '.join(codes)}" for pattern, codes in config.per_file_ignores.items()),
        "rules": (from_here(str(pack)) for pack in config.rule_packs),
        "targets": config.targets,
        "settings": config.settings,
    }
    for key, values in rows.items():
        origin = (" and ".join(excluded) or "default") if key == "exclude" else _origin(key, configured)
        yield "rule packs" if key == "rules" else key, ", ".join(values) or "none", origin


def _origin(key: str, configured: Config, is_asked: bool = False) -> str:
    return _COMMAND_LINE if is_asked else from_here(str(configured.source)) if key in configured.keys else "default"
