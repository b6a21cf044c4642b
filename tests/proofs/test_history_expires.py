"""X125: days without usage, with and without restarts of the recommender."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from restart_simulation import Restart
from restarted_process import Shop, shop

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(params=list(Restart))
def restarts(request: pytest.FixtureRequest) -> Restart:
    found: Restart = request.param
    return found


async def restart(report: Shop, restarts: Restart) -> None:
    if restarts is not Restart.NEVER:
        await (report.stop() if restarts is Restart.STOPPED else report.kill())
        await report.start()


@pytest.fixture
async def report() -> AsyncIterator[Shop]:
    """Run a workload ``report`` with high usage for two days, beside another workload.

    There is a cycle every half hour, and a confidence interval is twenty samples.
    """
    interval = timedelta(minutes=20)
    async with shop(
        interval=timedelta(minutes=30),
        confidence_interval_cpu=interval,
        confidence_interval_memory=interval,
    ) as found:
        found.open("other", cpu=100, memory=600)
        found.open("report", cpu=2000, memory=900)
        await found.start()
        await found.run(2 * DAY)
        assert found.target("report")["cpu"] == "2406m"
        yield found


async def test_a_recommendation_is_kept_for_ten_idle_days_and_until_a_day_of_usage(
    report: Shop, restarts: Restart
) -> None:
    before = report.target("report")
    report.idle("report")
    for days in (7, 3):
        await report.run(days * DAY)
        assert report.target("report") == before
        await restart(report, restarts)
        await report.cycle()
    condition = report.condition("report", "StaleRecommendation")
    assert condition.startswith("app: the history of usage expired.")
    assert not report.condition("other", "StaleRecommendation")
    report.used["report"] = (100, 300)
    report.roll_out("report")
    for hours in (1, 8):
        await report.run(hours * HOUR)
        assert report.target("report") == before
        await restart(report, restarts)
    await report.run(12 * HOUR)
    assert report.target("report")["cpu"] == "126m"
    assert not report.condition("report", "StaleRecommendation")


async def test_an_oom_kill_raises_memory_before_a_day_of_usage(
    report: Shop, restarts: Restart
) -> None:
    before = report.target("report")
    report.idle("report")
    await report.run(10 * DAY)
    await restart(report, restarts)
    report.used["report"] = (100, 1024)
    report.roll_out("report")
    await report.run(2 * HOUR)
    assert report.target("report") == before
    report.kill_by_memory("report")
    for _ in range(3):
        await report.cycle()
        after = report.target("report")
        assert int(after["memory"]) > int(before["memory"])
        assert after["cpu"] == before["cpu"]
        await restart(report, restarts)


async def test_a_report_of_every_month_keeps_its_recommendation(
    report: Shop, restarts: Restart
) -> None:
    before = report.target("report")
    for _ in range(2):
        report.idle("report")
        await report.run(9 * DAY)
        await restart(report, restarts)
        report.used["report"] = (1900, 850)
        report.roll_out("report")
        await report.run(2 * HOUR)
        assert report.target("report") == before
