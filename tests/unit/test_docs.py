"""The reference pages are what the code says: flags, metrics, and deviations from the reference."""

import re
from collections.abc import Iterator
from pathlib import Path

import build
import pytest
import wording

from common.flags import declared

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PACKAGES = (
    *("common", "recommender", "updater", "admission", "certs", "sandbox", "controlplane", "demo"),
)


def sources(*folders: str) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file, file.read_text(encoding="utf-8")


# Links

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ROOMS = (*PACKAGES, "benchmarks", "deploy", "docs", "examples", "tests")
FILE = re.compile(rf"(?<![\w/.-])(?:{'|'.join(ROOMS)})/[\w./-]+\.(?:csv|json|md|py|sh|yaml)\b")
PAGES = [
    page
    for page in sorted(ROOT.rglob("*.md"))
    if not any(part.startswith(".") for part in page.relative_to(ROOT).parts)
]


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", each.lower()).strip().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_files_that_text_and_comments_name_are_there() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    for file, text in (*texts.items(), *sources(*ROOMS)):
        named = set(FILE.findall(text))
        gone = {
            name for name in named if not any((at / name).exists() for at in (ROOT, *file.parents))
        }
        assert not gone, f"{file} names {gone}"


# Flags and metrics


@pytest.mark.parametrize("name", sorted(build.PAGES))
def test_a_page_is_what_the_code_says(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    same = written == build.PAGES[name]()
    assert same, f"docs/{name} is out of date; `{build.COMMAND}` writes it anew"


def test_tables_have_no_entries_for_nothing() -> None:
    labels = {
        (component, label)
        for component, registry in build.registries().items()
        for metric in build.exposed(registry)
        for label in metric.labels
    }
    assert set(wording.LABELS) == labels
    assert set(wording.GATES) == set(build._gates())


def test_no_flag_is_read_by_nobody() -> None:
    unread = set()
    for program, settings in build.PROGRAMS.items():
        texts = [text for _, text in sources(program.replace(".", "/"), "common")]
        for field in declared(settings):
            reads = re.compile(rf"(settings|self)\.{field.name}\b")
            if not any(reads.search(text) for text in texts):
                unread.add(field.name)
    assert unread == set()


# Deviations


DIFFERENCE = re.compile(r"^\| ([ADQX]\d+) \|[^|]*\|[^|]*\|[^|]*\|$", re.MULTILINE)
KEPT = re.compile(r"^\| ([ADQ]\d+) \|[^|]*\|$", re.MULTILINE)
PLANNED = re.compile(r"^- ([ADQ]\d+): ", re.MULTILINE)
CITED = re.compile(r"\b[ADQ]\d{1,2}\b")

CYCLE, RESIZE = "tests/unit/updater/test_update_pass.py", "tests/unit/updater/test_resize_state.py"
RESIZES = "tests/shell/test_updater_resizes.py"
RECOMMENDER, UPDATER = "tests/shell/test_recommender_cycle.py", "tests/shell/test_updater_cycle.py"
STORE = "tests/shell/test_checkpoint_store.py"
TROUBLE = "tests/shell/test_recommender_trouble.py"
OOM, WEBHOOK = (
    "tests/unit/recommender/test_oom_kills.py",
    "tests/unit/admission/test_registration.py",
)
HEALTH = "tests/unit/common/runtime/test_health.py"
# Where to see a difference whose id stands neither in code nor in tests: a file, and a text in it.
SHOWN_IN = {
    "Q11": (TROUBLE, "test_a_refused_write_stops_no_other"),
    "Q19": (OOM, "test_each_kill_is_logged_once"),
    "Q24": ("recommender/__main__.py", "await every(settings.interval"),
    "Q32": ("tests/unit/recommender/test_usage.py", "test_the_pods_of_a_vpa_are_counted_again_q32"),
    "X1": ("tests/unit/recommender/test_status.py", "test_conditions"),
    "X91": (
        "tests/unit/recommender/test_status.py",
        "test_the_condition_of_a_target_with_an_owner_names_the_owner",
    ),
    "X92": (RECOMMENDER, "test_where_requests_are_read_is_counted_once"),
    "X2": (OOM, "test_kills_in_a_pod_that_is_seen_once"),
    "X3": (RECOMMENDER, "test_a_checkpoint_is_written_only_when_something_happened"),
    "X4": (RECOMMENDER, "test_checkpoints_without_a_vpa_are_deleted"),
    "X31": (TROUBLE, "test_a_restart_without_history_or_usage_keeps_what_is_published"),
    "X32": (RECOMMENDER, "that_comes_later_is_read_before_it_is_overwritten"),
    "X33": (TROUBLE, "test_usage_from_the_future_must_not_wipe_the_past"),
    "X122": (
        "tests/shell/test_recommender_clocks.py",
        "test_a_kill_that_a_clock_behind_postponed_is_learnt_when_that_is_right",
    ),
    "X80": ("tests/unit/recommender/test_status.py", "test_when_a_status_is_written"),
    "X81": (RECOMMENDER, "lags_behind_by_five_minutes_at_the_most"),
    "X98": ("tests/proofs/test_recommender_faults.py", "test_a_clock_that_was_a_month_ahead"),
    "X107": (
        "tests/unit/common/recommendation/test_scaled_containers.py",
        "test_scaled_containers",
    ),
    "X108": (
        "tests/shell/test_recommender_sidecars.py",
        "test_a_checkpoint_of_a_sidecar_counts_for_nothing_with_the_gate_off",
    ),
    "X97": ("tests/unit/recommender/test_usage.py", "test_aggregates_without_pods"),
    "X82": (
        "tests/unit/recommender/test_aggregate_compaction.py",
        "test_each_hour_has_its_row_and_each_row_goes_a_lifetime_later",
    ),
    "X85": (STORE, "test_what_is_written_never_knows_less"),
    "X86": (RECOMMENDER, "test_a_server_that_knows_no_vpas_yet_costs_no_checkpoint"),
    "X34": ("tests/unit/admission/test_app.py", "negative: the API server would refuse the pod"),
    "X59": (
        "tests/unit/admission/test_fuzzed_reviews.py",
        "test_objects_that_take_long_are_answered_shortly",
    ),
    "X39": (
        "tests/unit/admission/test_review.py",
        "test_an_answer_is_in_the_version_that_was_asked",
    ),
    "D1": (RESIZE, "deferred for ever"),
    "D2": (RESIZE, "error for ever"),
    "D3": (RESIZE, "infeasible, nothing lower"),
    "D4": (UPDATER, "test_in_place_remembers_what_does_not_fit_until_less_is_wanted"),
    "D5": (RESIZE, "refused before, lower, no room"),
    "D6": (RESIZE, "infeasible, as remembered"),
    "D7": ("tests/unit/updater/test_state.py", "test_what_is_remembered_ends_with_the_pod"),
    "D27": (CYCLE, "test_a_stale_admission_lease_stops_evictions_and_nothing_else"),
    "X35": (UPDATER, "test_pods_whose_replacements_an_older_vpa_would_patch_are_left_alone"),
    "X36": ("updater/decision.py", "VPA_CHANGED"),
    "X37": ("tests/unit/updater/test_metrics.py", "test_the_counters_of_a_deleted_vpa_go_with_it"),
    "X5": ("tests/unit/updater/test_disruption.py", '("CloneSet", None, 6, 6)'),
    "X6": (RESIZE, "would change the QoS class"),
    "X7": (RESIZE, "spec says so already"),
    "X8": (CYCLE, "test_a_call_without_an_answer_may_have_happened_and_costs_its_budget"),
    "X110": ("tests/unit/updater/test_preflight.py", "LimitRange: the minimum of a Pod"),
    "X111": ("tests/unit/common/recommendation/test_quota.py", "one millicore short"),
    "X112": ("tests/unit/updater/test_dry_run.py", "test_a_refusal_costs_no_pod"),
    "X9": ("tests/shell/test_client.py", "test_writes_are_never_tried_again"),
    "X10": ("updater/update_pass.py", "starting with the one at ``first``"),
    "X11": (RESIZE, "test_a_false_condition_hides_no_true_one"),
    "X12": ("tests/golden/test_updater_metrics.py", "test_events_have_the_references_words"),
    "A8": (WEBHOOK, '("--ignored-vpa-object-namespaces=a,b",)'),
    "A15": (WEBHOOK, "test_the_whole_configuration"),
    "A16": (HEALTH, "test_the_ops_address_answers"),
    "X13": (WEBHOOK, "test_the_next_one_patches_and_never_deletes"),
    "X14": (
        "tests/shell/test_admission_process.py",
        "test_before_the_first_list_pods_pass_unchanged",
    ),
    "X15": ("tests/unit/admission/test_app.py", "test_a_look_up_that_hangs_is_given_up"),
    "X16": (
        "tests/unit/admission/test_cluster.py",
        "test_an_owner_that_is_only_just_created_is_waited_for",
    ),
    "X17": ("common/runtime/web.py", "timeout_graceful_shutdown"),
    "X60": ("tests/shell/test_limited_http.py", "who_sends_a_byte_now_and_then_is_not_waited_for"),
    "X118": (HEALTH, "test_scrapes_share_an_answer_for_a_second"),
    "X119": ("tests/unit/recommender/test_conversion.py", "test_the_label_of_an_update_mode"),
    "X18": ("tests/process/test_startup.py", "test_a_mistake_is_one_line_and_exit_code_2"),
    "X19": ("tests/process/test_outage.py", "they_act_on_what_is_true_now"),
    "X20": ("tests/shell/test_client.py", "test_one_strange_object_costs_one_object"),
    "X21": ("tests/unit/admission/test_review.py", "test_a_review_without_request"),
    "X22": (
        "tests/shell/test_targets.py",
        "test_a_scalable_owner_is_the_topmost_and_is_remembered",
    ),
    "X23": ("updater/__main__.py", "[cache.run for cache in caches.all()]"),
    "X24": ("common/kube/client.py", "self.limiter = RateLimiter(qps, burst)"),
    "X25": (HEALTH, "test_profiles_are_served_only_where_they_are_asked_for"),
    "X26": ("tests/unit/common/test_flags.py", "klog's flags have no effect"),
    "X27": ("tests/unit/certs/test_store.py", "test_a_bad_pair_is_replaced"),
    "X28": ("tests/deploy/test_rbac.py", "test_an_account_may_do_what_its_component_calls"),
    "X29": ("deploy/updater.yaml", "--in-place-skip-disruption-budget=true"),
    "X30": ("deploy/updater.yaml", "readOnlyRootFilesystem: true"),
    "X40": (
        "tests/shell/test_self_check.py",
        "test_the_lease_waits_for_several_right_checks_after_a_wrong_one",
    ),
    "X41": (
        "tests/shell/test_registration.py",
        "test_a_configuration_that_is_deleted_is_back_each_time",
    ),
    "X42": (
        "tests/shell/test_scales.py",
        "test_what_is_known_answers_while_it_is_fetched_anew",
    ),
    "X68": ("tests/shell/test_client.py", "a_client_apart_takes_no_turns_of_the_others"),
    "X83": ("tests/unit/updater/test_decision_log.py", "test_what_is_told"),
    "X75": (
        "tests/shell/test_recommender_external_metrics.py",
        "test_one_question_fails_alone",
    ),
    "X71": (
        "tests/shell/test_recommender_history.py",
        "test_an_unreachable_server_is_logged_once_and_asked_again",
    ),
    "X72": (
        "tests/shell/test_recommender_history.py",
        "test_a_recommendation_made_of_all_history_stays_until_it_is_there_again",
    ),
    "X73": (
        "tests/shell/test_recommender_history.py",
        "test_what_a_checkpoint_knows_is_not_asked_for_twice",
    ),
    "X74": (
        "tests/unit/recommender/test_backfill.py",
        "test_a_pod_that_is_there_has_its_present_labels",
    ),
    "X70": (
        "tests/shell/test_recommender_usage.py",
        "test_where_the_list_of_the_cluster_fails_each_namespace_is_asked",
    ),
    "X61": ("updater/actuation.py", "uid=meta.uid"),
    "X62": ("tests/shell/test_updater_event_trigger.py", "test_a_group_is_through_wave_by_wave"),
    "X63": ("tests/proofs/test_breaker.py", "three_evictions_of_each_vpa_and_one_an_hour"),
    "X64": (
        "tests/unit/updater/test_candidate.py",
        "test_a_threshold_of_zero_takes_nobody_down_for_no_difference",
    ),
    "X89": ("tests/shell/test_odd_pods.py", "its controller is being deleted"),
    "X100": (RESIZES, "test_a_deferred_resize_follows_the_recommendation"),
    "X101": (RESIZES, "test_what_did_not_fit_is_tried_again_once_the_nodes_have_grown"),
    "X102": (RESIZES, "test_a_sidecar_gets_its_memory_though_its_neighbour_wants_too_much_cpu"),
    "X103": (
        "tests/shell/test_updater_process.py",
        "test_without_the_right_to_read_nodes_passes_go_on",
    ),
    "X90": (
        "tests/unit/updater/test_daemonset_desired_count.py",
        "with_two_out_already_one_of_six_may_go",
    ),
    "X104": ("tests/shell/test_rollouts.py", "a_rollout_in_between_loses_three_pods"),
    "X105": ("tests/shell/test_rollouts.py", "stuck_loses_no_pod_of_the_old_version"),
    "X106": ("tests/unit/updater/test_disruption.py", "pods_of_a_job_without_a_node_count"),
    "X113": (
        "tests/unit/admission/test_vpa_validation.py",
        "test_x113_a_bad_quantity_is_denied_in_the_references_words",
    ),
    "X114": ("tests/shell/test_updater_events.py", "test_x114_a_deferred_resize_is_reported_once"),
    "X115": (
        "tests/shell/test_recommender_targets.py",
        "test_x115_a_vpa_names_the_older_one_of_its_target_until_that_is_gone",
    ),
    "X116": ("tests/shell/test_targets.py", "names_no_api_never_becomes_a_request"),
    "X117": ("tests/shell/test_lookup_budget.py", "api_hangs_delays_nobody_else_for_long"),
    "X120": ("tests/process/test_former_leader.py", "longer_than_its_lease_it_sends_no_write"),
    "X121": ("tests/shell/test_recommender_trouble.py", "x121 no status subresource"),
    "Q2": ("tests/golden/test_recommender.py", '"X125"'),
    "X123": ("tests/proofs/test_history_changes.py", "moved_to_another_workload"),
    "X124": ("tests/proofs/test_history_changes.py", "stored_in_the_cycle_that_learns_of_it"),
    "X125": ("tests/shell/test_little_is_known.py", "without_samples_get_no_recommendation"),
    "X126": ("tests/unit/common/test_object_bounds.py", "test_an_object_has_so_many_and_no_more"),
    "X38": (CYCLE, "test_thirty_two_calls_wait_for_the_api_server_at_a_time"),
}


def deviations() -> str:
    return (DOCS / "deviations.md").read_text(encoding="utf-8")


def cited() -> dict[str, Path]:
    """Every id in code and tests, with a file that names it."""
    return {
        found: file
        for file, text in sources(*PACKAGES, "tests")
        if file != Path(__file__)
        for found in CITED.findall(text)
    }


def test_every_id_stands_in_one_place_of_the_page() -> None:
    page = deviations()
    found = [*DIFFERENCE.findall(page), *KEPT.findall(page), *PLANNED.findall(page)]
    assert len(found) == len(set(found))
    assert len(found) == len(re.findall(r"^(?:\| |- )[A-Z]\d+\b", page, re.MULTILINE))


def test_what_code_and_tests_cite_is_on_the_page() -> None:
    page = deviations()
    known = {*DIFFERENCE.findall(page), *KEPT.findall(page)}
    missing = {found: str(file) for found, file in cited().items() if found not in known}
    assert not missing, f"cited as a difference, but not told in docs/deviations.md: {missing}"


def test_what_the_page_tells_can_be_seen() -> None:
    told = set(DIFFERENCE.findall(deviations()))
    assert told == cited().keys() & told | SHOWN_IN.keys()
    for found, (file, text) in SHOWN_IN.items():
        there = text in (ROOT / file).read_text(encoding="utf-8")
        assert there, f"{found} of docs/deviations.md is not seen in {file} any more: {text!r}"


def test_the_page_lists_what_the_changelog_says_is_missing() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    missing = set(re.findall(r"`(--[^`]+)`", changelog.partition("### Not yet supported")[2]))
    assert missing <= set(re.findall(r"`(--[^`]+)`", deviations().partition("## Not supported")[2]))
