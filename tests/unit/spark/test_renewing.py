from esp.spark.renewing import Renewing


def test_offsets_are_renewed_until_the_query_ends() -> None:
    renewed: list[int] = []

    def renew() -> None:
        renewed.append(len(renewed))
        if len(renewed) == 2:
            raise ValueError("a coordinator moves")

    running = iter([True, True, True, False])
    renewing = Renewing(renew, lambda: next(running), interval_s=0.001)
    renewing._thread.join(10)
    assert renewing.is_over
    assert renewed == [0, 1, 2]


def test_a_renewing_that_is_stopped_ends_at_once() -> None:
    renewing = Renewing(lambda: None, lambda: True)
    assert not renewing.is_over
    renewing.stop()
    assert renewing.is_over
