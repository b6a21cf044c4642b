"""Generated pages, links, and deviations agree with the code."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import build
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
FOLDERS = (*PACKAGES, "benchmarks", "deploy", "docs", "examples", "release", "tests")
FILE = re.compile(rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})/[\w./-]+\.(?:csv|json|md|py|sh|yaml)\b")
PAGES = [
    page
    for page in sorted(ROOT.rglob("*.md"))
    if not any(part.startswith(".") for part in page.relative_to(ROOT).parts)
]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", each.lower()).strip().replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_files_that_pages_and_comments_name_exist() -> None:
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    for file, text in (*texts.items(), *sources(*FOLDERS)):
        named = set(FILE.findall(text))
        gone = {
            name for name in named if not any((at / name).exists() for at in (ROOT, *file.parents))
        }
        assert not gone, f"{file} names {gone}"


# Flags and metrics


@pytest.mark.parametrize("name", sorted(build.PAGES))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    same = written == build.PAGES[name]()
    assert same, f"docs/{name} is out of date; `{build.COMMAND}` updates it"


def test_tables_of_wordings_match_labels_and_gates() -> None:
    labels = {
        (component, label)
        for component, registry in build.registries().items()
        for metric in build.exposed(registry)
        for label in metric.labels
    }
    assert set(wording.LABELS) == labels
    assert set(wording.GATES) == set(build._gates())


def test_every_flag_is_read() -> None:
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

CYCLE, RESIZE = (
    "tests/unit/updater/test_update_pass.py",
    "tests/unit/updater/test_resize_decision.py",
)
STEPS = "tests/unit/updater/test_resize_steps.py"
RESIZES = "tests/shell/test_updater_resizes.py"
RECOMMENDER, UPDATER = "tests/shell/test_recommender_cycle.py", "tests/shell/test_updater_cycle.py"
STORE = "tests/shell/test_checkpoint_store.py"
TROUBLE = "tests/shell/test_recommender_trouble.py"
OOM, WEBHOOK = (
    "tests/unit/recommender/test_oom_kills.py",
    "tests/unit/admission/test_registration.py",
)
HEALTH = "tests/unit/common/runtime/test_health.py"
# The evidence of differences whose ids are neither in code nor in tests: a file, and a text in it.
SHOWN_IN = {
    "Q11": (TROUBLE, "test_a_refused_write_stops_no_other"),
    "Q19": (OOM, "test_each_kill_is_reported_once"),
    "Q24": ("recommender/__main__.py", "await every(settings.interval"),
    "Q32": (
        "tests/unit/recommender/test_usage.py",
        "test_the_pod_count_of_a_vpa_follows_its_pods_q32",
    ),
    "X1": ("tests/unit/recommender/test_status.py", "test_conditions"),
    "X91": (
        "tests/unit/recommender/test_status.py",
        "test_the_condition_of_a_target_with_an_owner_names_the_owner",
    ),
    "X92": (RECOMMENDER, "test_where_requests_are_read_is_counted_once"),
    "X2": (OOM, "test_kills_in_the_first_version_of_a_pod"),
    "X3": (RECOMMENDER, "test_a_checkpoint_is_written_only_when_something_happened"),
    "X4": (RECOMMENDER, "test_checkpoints_without_a_vpa_are_deleted"),
    "X31": (TROUBLE, "test_a_restart_without_history_or_usage_keeps_the_published_recommendation"),
    "X32": (RECOMMENDER, "that_comes_later_is_read_before_it_is_overwritten"),
    "X33": (TROUBLE, "test_usage_from_the_future_does_not_remove_history"),
    "X122": (
        "tests/shell/test_recommender_clocks.py",
        "test_a_kill_postponed_by_a_slow_clock_is_recorded_after_the_correction",
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
        "test_a_checkpoint_of_a_sidecar_is_ignored_with_the_gate_off",
    ),
    "X97": ("tests/unit/recommender/test_usage.py", "test_aggregates_without_pods"),
    "X82": (
        "tests/unit/recommender/test_aggregate_compaction.py",
        "test_each_hour_has_a_row_that_expires_a_lifetime_later",
    ),
    "X85": (STORE, "test_a_write_never_loses_history"),
    "X86": (RECOMMENDER, "test_a_server_that_serves_no_vpas_yet_causes_no_deletion_of_checkpoints"),
    "X34": ("tests/unit/admission/test_app.py", "negative: the API server would refuse the pod"),
    "X59": (
        "tests/unit/admission/test_fuzzed_reviews.py",
        "test_large_objects_are_answered_in_time",
    ),
    "X39": (
        "tests/unit/admission/test_review.py",
        "test_an_answer_has_the_version_of_the_review",
    ),
    "D1": (RESIZE, "deferred longer than the time-out"),
    "D2": (RESIZE, "error longer than the time-out"),
    "D3": (RESIZE, "infeasible, nothing lower"),
    "D4": (UPDATER, "test_in_place_caches_an_infeasible_resize_until_a_lower_target"),
    "D5": (RESIZE, "refused before, lower, no room"),
    "D6": (RESIZE, "infeasible, equal to remembered"),
    "D7": ("tests/unit/updater/test_state.py", "test_the_memory_of_a_pod_is_dropped_with_the_pod"),
    "D27": (CYCLE, "test_a_stale_admission_lease_prevents_only_evictions"),
    "X35": (UPDATER, "test_pods_controlled_by_an_older_vpa_are_not_updated"),
    "X36": ("updater/decision.py", "VPA_CHANGED"),
    "X37": ("tests/unit/updater/test_metrics.py", "test_the_counters_of_a_deleted_vpa_are_removed"),
    "X5": ("tests/unit/updater/test_disruption_budget.py", '("CloneSet", None, 6, 6)'),
    "X6": (RESIZE, "would change the QoS class"),
    "X7": (RESIZE, "the spec has the target"),
    "X8": (CYCLE, "test_a_call_without_an_answer_takes_budget"),
    "X110": ("tests/unit/updater/test_vpa_preflight.py", "LimitRange: the minimum of a Pod"),
    "X111": ("tests/unit/common/recommendation/test_quota.py", "one millicore short"),
    "X112": ("tests/unit/updater/test_dry_run.py", "test_after_a_refusal_no_pod_is_evicted"),
    "X9": ("tests/shell/test_client.py", "test_writes_are_never_retried"),
    "X10": ("updater/update_pass.py", "starting with the one at ``first``"),
    "X11": (RESIZE, "test_a_false_condition_does_not_hide_a_true_one"),
    "X12": ("tests/golden/test_updater_metrics.py", "test_events_have_the_texts_of_the_reference"),
    "A8": (WEBHOOK, '("--ignored-vpa-object-namespaces=a,b",)'),
    "A15": (WEBHOOK, "test_the_whole_configuration"),
    "A16": (HEALTH, "test_the_endpoints_of_the_ops_address"),
    "X13": (WEBHOOK, "test_the_next_registration_patches_the_configuration"),
    "X14": (
        "tests/shell/test_admission_process.py",
        "test_pods_are_unchanged_before_the_first_list",
    ),
    "X15": ("tests/unit/admission/test_app.py", "test_a_hanging_lookup_is_cancelled"),
    "X16": (
        "tests/unit/admission/test_cluster.py",
        "test_a_missing_owner_is_requested_again",
    ),
    "X17": ("common/runtime/web_server.py", "timeout_graceful_shutdown"),
    "X60": ("tests/shell/test_limited_http.py", "test_a_slow_request_times_out"),
    "X118": (HEALTH, "test_scrapes_within_a_second_share_an_answer"),
    "X119": ("tests/unit/recommender/test_conversion.py", "test_the_label_of_an_update_mode"),
    "X18": ("tests/process/test_startup.py", "test_a_misconfiguration_is_one_line_and_exit_code_2"),
    "X19": ("tests/process/test_outage.py", "they_act_on_the_current_state"),
    "X20": ("tests/shell/test_client.py", "test_an_invalid_object_affects_only_itself"),
    "X21": ("tests/unit/admission/test_review.py", "test_a_review_without_request"),
    "X22": (
        "tests/shell/test_targets.py",
        "test_a_scalable_owner_is_the_topmost_and_is_cached",
    ),
    "X23": ("updater/__main__.py", "[cache.run for cache in caches.followed()]"),
    "X24": ("common/kube/client.py", "self.limiter = RateLimiter(qps, burst)"),
    "X25": (HEALTH, "test_profiles_are_served_only_with_the_flag"),
    "X26": ("tests/unit/common/test_flags.py", "klog's flags have no effect"),
    "X27": ("tests/unit/certs/test_certificate_stores.py", "test_a_bad_pair_is_replaced"),
    "X28": ("tests/deploy/test_rbac.py", "test_an_account_may_do_what_its_component_calls"),
    "X29": ("deploy/components/updater.yaml", "--in-place-skip-disruption-budget=true"),
    "X30": ("deploy/components/updater.yaml", "readOnlyRootFilesystem: true"),
    "X40": (
        "tests/shell/test_self_check.py",
        "test_the_lease_waits_for_several_right_checks_after_a_wrong_one",
    ),
    "X41": (
        "tests/shell/test_registration.py",
        "test_a_deleted_configuration_is_created_again_each_time",
    ),
    "X42": (
        "tests/shell/test_scales.py",
        "test_a_cached_scale_is_returned_while_it_is_refreshed",
    ),
    "X68": ("tests/shell/test_client.py", "test_a_separate_client_has_its_own_rate_limit"),
    "X83": ("tests/unit/updater/test_decision_log.py", "test_which_decisions_are_logged"),
    "X75": (
        "tests/shell/test_recommender_external_metrics.py",
        "test_a_failed_query_affects_no_other",
    ),
    "X71": (
        "tests/shell/test_recommender_history.py",
        "test_an_unreachable_server_is_logged_once_and_retried",
    ),
    "X72": (
        "tests/shell/test_recommender_history.py",
        "test_a_recommendation_from_all_history_is_kept_until_history_is_fetched",
    ),
    "X73": (
        "tests/shell/test_recommender_history.py",
        "test_history_in_a_checkpoint_is_not_fetched_again",
    ),
    "X74": (
        "tests/unit/recommender/test_backfill.py",
        "test_samples_of_existing_pods_count_with_their_current_labels",
    ),
    "X70": (
        "tests/shell/test_recommender_usage.py",
        "test_if_the_cluster_list_fails_each_namespace_is_listed",
    ),
    "X61": ("updater/actuation.py", "uid=meta.uid"),
    "X62": (
        "tests/shell/test_updater_event_trigger.py",
        "test_a_group_is_updated_in_waves_without_intervals",
    ),
    "X63": ("tests/proofs/test_breaker.py", "three_evictions_of_each_vpa_and_one_an_hour"),
    "X64": (
        "tests/unit/updater/test_candidate.py",
        "test_with_a_threshold_of_zero_equal_pods_are_left_alone",
    ),
    "X89": ("tests/shell/test_odd_pods.py", "its controller is being deleted"),
    "X100": (RESIZES, "test_a_deferred_resize_follows_the_recommendation"),
    "X101": (RESIZES, "test_an_infeasible_resize_is_retried_after_the_nodes_grew"),
    "X102": (
        RESIZES,
        "test_a_container_gets_its_memory_while_another_one_has_an_infeasible_cpu_target",
    ),
    "X103": (
        "tests/shell/test_updater_process.py",
        "test_without_the_permission_to_read_nodes_passes_continue",
    ),
    "X90": (
        "tests/unit/updater/test_daemonset_desired_count.py",
        "with_two_of_six_pods_missing_one_is_evicted",
    ),
    "X104": ("tests/shell/test_rollouts.py", "a_rollout_in_between_loses_three_pods"),
    "X105": ("tests/shell/test_rollouts.py", "stuck_loses_no_pod_of_the_old_version"),
    "X106": ("tests/unit/updater/test_disruption_budget.py", "pods_of_a_job_without_a_node_count"),
    "X138": (
        STEPS,
        "test_a_deferred_resize_becomes_a_step_and_the_rest_follows_when_a_neighbour_shrinks",
    ),
    "X139": (
        "tests/shell/test_updater_memory_steps.py",
        "test_a_large_decrease_goes_in_steps_while_usage_is_small",
    ),
    "X140": (STEPS, "test_an_oom_kill_after_a_decrease_sets_a_floor_for_all_pods_of_the_vpa"),
    "X113": (
        "tests/unit/admission/test_vpa_validation.py",
        "test_x113_an_invalid_quantity_is_denied_with_the_reference_s_message",
    ),
    "X114": (
        "tests/shell/test_updater_events.py",
        "test_x114_a_deferred_resize_and_its_end_are_reported_once",
    ),
    "X115": (
        "tests/shell/test_recommender_targets.py",
        "test_x115_a_vpa_names_the_older_one_of_its_target_until_that_is_deleted",
    ),
    "X116": ("tests/shell/test_targets.py", "names_no_api_never_becomes_a_request"),
    "X117": (
        "tests/shell/test_lookup_budget.py",
        "test_a_namespace_whose_api_hangs_delays_others_only_shortly",
    ),
    "X120": (
        "tests/process/test_former_leader.py",
        "sends_no_write_after_a_stop_longer_than_its_lease",
    ),
    "X121": ("tests/shell/test_recommender_trouble.py", "x121 no status subresource"),
    "Q2": ("tests/golden/test_recommender.py", '"X125"'),
    "X123": (
        "tests/proofs/test_history_changes.py",
        "with_another_target_recommends_for_that_workload",
    ),
    "X124": ("tests/proofs/test_history_changes.py", "stored_in_the_cycle_that_detects_it"),
    "X125": ("tests/shell/test_little_is_known.py", "without_samples_get_no_recommendation"),
    "X126": (
        "tests/unit/common/test_object_bounds.py",
        "test_a_list_or_map_above_its_bound_is_refused",
    ),
    "X38": (CYCLE, "test_at_most_thirty_two_calls_are_in_progress"),
    "X130": (
        "tests/unit/updater/test_room_before_evictions.py",
        "test_no_eviction_without_room",
    ),
    "X131": (
        "tests/shell/test_recommender_nodes.py",
        "test_a_target_above_all_nodes_is_capped",
    ),
    "X134": ("tests/shell/test_recommender_quotas.py", "test_the_pods_of_a_rollout_fit"),
    "X127": ("tests/golden/test_quantity.py", "_X127"),
}


def deviations() -> str:
    return (DOCS / "deviations.md").read_text(encoding="utf-8")


def cited() -> dict[str, Path]:
    """Return the ids in code and tests, each with a file that cites it."""
    return {
        found: file
        for file, text in sources(*PACKAGES, "tests")
        if file != Path(__file__)
        for found in CITED.findall(text)
    }


def test_every_id_is_on_the_page_once() -> None:
    page = deviations()
    found = [*DIFFERENCE.findall(page), *KEPT.findall(page), *PLANNED.findall(page)]
    assert len(found) == len(set(found))
    assert len(found) == len(re.findall(r"^(?:\| |- )[A-Z]\d+\b", page, re.MULTILINE))


def test_cited_ids_are_on_the_page() -> None:
    page = deviations()
    known = {*DIFFERENCE.findall(page), *KEPT.findall(page)}
    missing = {found: str(file) for found, file in cited().items() if found not in known}
    assert not missing, f"cited as a difference, but missing in docs/deviations.md: {missing}"


def test_every_difference_has_evidence() -> None:
    differences = set(DIFFERENCE.findall(deviations()))
    assert differences == cited().keys() & differences | SHOWN_IN.keys()
    for found, (file, text) in SHOWN_IN.items():
        there = text in (ROOT / file).read_text(encoding="utf-8")
        assert there, f"{found} of docs/deviations.md is no longer in {file}: {text!r}"


def test_the_page_lists_the_gaps_that_the_changelog_mentions() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    missing = set(re.findall(r"`(--[^`]+)`", changelog.partition("### Not yet supported")[2]))
    assert missing <= set(re.findall(r"`(--[^`]+)`", deviations().partition("## Not supported")[2]))
