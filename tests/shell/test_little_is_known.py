"""X125: there is no recommendation without samples, and none from less history replaces another."""

from restart_simulation import ALL, MINUTE, Restart, Stage, play


@ALL
def test_containers_without_samples_get_no_recommendation(restarts: Restart) -> None:
    async def story(stage: Stage) -> None:
        stage.uses("web", cpu=200)
        await stage.simulation.deploy("web")
        show = stage.hide("web")
        await stage.start()
        for _ in range(3):
            await stage.pass_by(2 * MINUTE)
            assert await stage.simulation.target("web") == {}
            conditions = await stage.conditions("web")
            assert conditions["NoSamples"].startswith("app, sidecar: no usage is known.")
            assert "StaleRecommendation" not in conditions
            await stage.restart()
        show()
        await stage.pass_by(2 * MINUTE)
        assert await stage.cpu("web") == "247m"
        assert "NoSamples" not in await stage.conditions("web")

    play(story, restarts)


def test_with_the_flag_the_minimum_is_recommended_without_samples_as_in_the_reference() -> None:
    async def story(stage: Stage) -> None:
        stage.uses("web", cpu=200)
        await stage.simulation.deploy("web")
        stage.hide("web")
        await stage.start()
        await stage.pass_by(2 * MINUTE)
        assert await stage.simulation.target("web") == {"cpu": "12m", "memory": "125Mi"}
        assert (await stage.conditions("web")).keys() == {"RecommendationProvided", "LowConfidence"}

    play(story, publish_without_samples=True)


def test_jobs_that_end_before_their_first_sample_get_no_recommendation() -> None:
    async def story(stage: Stage) -> None:
        stage.uses("job", cpu=200)
        await stage.simulation.deploy("job")
        stage.hide("job")
        await stage.start()
        for _ in range(60):
            stage.simulation.roll_out("job")
            stage.hide("job")
            await stage.pass_by(MINUTE)
            assert await stage.simulation.target("job") == {}
        assert (await stage.conditions("job"))["NoSamples"].startswith("app, sidecar:")

    play(story)
