"""Series that do not leak: stable, spikes, steps, ramps."""

import math

from series import Curve, DAY, GB, GIB, HOUR, MB, MINUTE, Made, recipe, recurring, restarted, steady


# ---- stable ----------------------------------------------------------------------------------------------------------

@recipe()
def flat(d):
    limit = d.limit()
    return Made("stable", steady(d, d.log_between(20 * MINUTE, 2 * DAY), 10, limit).murmur(limit), limit)


@recipe()
def flat_correlated(d):
    limit = d.limit()
    every = d.one([5, 30], [10, 60])
    c = steady(d, every * d.between(1500, 5000), every, limit)
    return Made("stable", c.noise(limit * d.log_between(0.005, 0.03), every * d.log_between(4, 40)), limit)


@recipe(3)
def constant(d):
    limit = d.limit()
    return Made("stable", steady(d, d.log_between(10 * MINUTE, 8 * HOUR), d.one([1, 10], [2, 30]), limit), limit)


@recipe(3)
def flat_percent(d):
    limit = d.limit()
    c = steady(d, d.between(0.5, 3) * DAY, 60, limit).noise(limit * 0.008, d.between(5, 60) * MINUTE)
    return Made("stable", c, limit, grain=limit / 100, note="whole percents")


@recipe(6)
def collector_small(d):
    limit = d.limit()
    every = d.one([1, 5, 10], [2, 5, 15])
    c = steady(d, every * d.between(800, 4000), every, limit)
    c.sawtooth(c.y[0] * d.log_between(0.02, 0.1), every * d.log_between(3, 120), d.one([0, 0.15], [0.05, 0.25]))
    return Made("stable", c.murmur(limit / 3), limit, note="a healthy collector")


@recipe(6)
def collector_large(d):
    limit = d.limit()
    every = d.one([1, 5, 10], [2, 5, 15])
    c = steady(d, every * d.between(1000, 4000), every, limit, d.between(0.2, 0.6))
    c.sawtooth(c.y[0] * d.log_between(0.1, 0.3), every * d.log_between(5, 100), d.one([0.05, 0.3], [0, 0.2, 0.4]))
    return Made("stable", c.murmur(limit / 3), limit, accepts="spikes", note="a healthy collector, 10-30 % of the level")


@recipe(5)
def epochs(d):
    limit = d.limit()
    every = d.one([5, 10], [2, 10])
    period = every * d.log_between(60, 400)
    c = steady(d, period * d.between(6, 16), every, limit, d.between(0.2, 0.5))
    c.sawtooth(limit * d.between(0.05, 0.35), period, d.one([0.02], [0.04]), steepness=d.one([1], [0.8, 1.2]))
    return Made("stable", c.murmur(limit), limit, accepts="spikes", note="grows through each epoch, falls back at its end")


@recipe(5)
def restarts(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    level, tau = limit * d.between(0.3, 0.75), every * d.between(2, 10)
    lives = [every * d.between(150, 700) for _ in range(d.whole(4, 8))]

    def life(c, span):
        return c.approach(level, tau).murmur(limit)
    c, _ = restarted(d, limit, lives, every, every * d.whole(1, 5), life)
    return Made("stable", c, limit, accepts="ramp|step|spikes", note="a healthy job that is started again")


@recipe(4)
def wander(d):
    limit, every = d.limit(), d.one([10, 60], [30, 60])
    c = steady(d, every * d.between(3000, 6000), every, limit, d.between(0.3, 0.7))
    return Made("stable", c.noise(limit * d.between(0.005, 0.03), every * d.between(80, 250)).murmur(limit / 3), limit,
                note="comes back slowly")


@recipe(5)
def near_limit(d):
    limit, every = d.limit(), d.one([10, 60], [30, 60])
    c = steady(d, every * d.between(2500, 5000), every, limit, d.between(0.9, 0.965))
    c.noise(limit * d.between(0.003, 0.007), every * d.log_between(3, 30))
    c.y = [min(y, limit * 0.988) for y in c.y]
    return Made("stable", c, limit, note="busy and full, and comes back")


@recipe(4)
def diurnal(d):
    limit, every = d.limit(), d.one([60], [60, 120])
    c = steady(d, d.between(3, 7) * DAY, every, limit, d.between(0.3, 0.6))
    high, phase, bend = limit * d.between(0.02, 0.12), d.random() * 6.28, d.between(0, 0.4)
    c.add(lambda t: high * (math.sin(6.2832 * t / DAY + phase) + bend * math.sin(12.566 * t / DAY)))
    return Made("stable", c.noise(limit * 0.006, 20 * MINUTE).murmur(limit), limit, accepts="spikes", note="day and night")


@recipe(3)
def gaps(d):
    limit, every = d.limit(), d.one([5], [10])
    c = steady(d, every * d.between(1500, 4000), every, limit).murmur(limit)
    start = d.between(0.3, 0.6) * c.t[-1]
    return Made("stable", c, limit, missing=d.between(0.1, 0.3), hole=(start, start + d.between(0.05, 0.25) * c.t[-1]))


@recipe(4)
def limit_changes(d):
    limit, every = d.limit(), d.one([5, 10], [2, 10])
    c = steady(d, every * d.between(800, 3000), every, limit, d.between(0.2, 0.4)).murmur(limit / 2)
    span = c.t[-1]
    limits = [(0.0, limit), (d.between(0.25, 0.45) * span, limit * d.choice([0.5, 0.6, 1.5, 2])),
              (d.between(0.6, 0.85) * span, limit * d.choice([0.75, 1]))]
    return Made("stable", c, limit, limits=limits, note="the limit is changed twice, the level is not")


@recipe(3)
def drains(d):
    limit, every = d.limit(), d.one([10], [5, 30])
    c = steady(d, every * d.between(1000, 3000), every, limit, d.between(0.5, 0.8))
    c.line(-c.y[0] * d.between(0.2, 0.5) / c.t[-1])
    return Made("stable", c.murmur(limit), limit, note="falls slowly")


@recipe(4)
def one_balloon(d):
    limit, every = d.limit(), d.one([5, 10], [10])
    c = steady(d, d.between(6, 24) * HOUR, every, limit, d.between(0.15, 0.4)).murmur(limit)
    c.spikes([(d.between(0.3, 0.8) * c.t[-1], d.between(20, 60), limit * d.between(0.2, 0.4), d.choice(["box", "hill"]))])
    return Made("stable", c, limit, accepts="spikes", note="half a minute of balloon in a long run, once")


# ---- spikes ----------------------------------------------------------------------------------------------------------

@recipe(6)
def validation(d):
    limit, every = d.one([32 * GB, 61 * GIB], [24 * GIB, 32 * GIB, 61 * GB]), d.one([2, 10], [5, 10])
    c = Curve(d, d.between(1.5, 8) * HOUR, every, d.between(11, 14) * GB).murmur(14 * GB)
    c.spikes(recurring(d, c.t[-1], d.between(4, 9) * MINUTE, d.between(2.5, 5) * GB, d.log_between(every, 90),
                       forms=d.one([("box",), ("decay",)], [("box",), ("hill",)])))
    return Made("spikes", c, limit, note="14 GB, and 4 GB more at every validation")


@recipe(4)
def validation_over_a_drift(d):
    every, low = d.one([2, 5], [1, 5]), d.between(5, 14) * GB
    c = Curve(d, d.between(0.7, 4) * HOUR, every, low).noise(low * d.log_between(0.0002, 0.003))
    c.line(d.between(30, 60) * MB / c.t[-1])
    c.spikes(recurring(d, c.t[-1], d.between(2, 6) * MINUTE, d.between(2, 5) * GB, d.log_between(2 * every, 45), jitter=0.05, ragged=0.05))
    return Made("spikes", c, d.one([32 * GB], [32 * GIB]), note="6000 MB at first, 6050 at the end: no leak")


@recipe(5)
def validation_brief(d):
    c = Curve(d, d.between(0.5, 2) * HOUR, d.one([1], [2]), d.between(4.6, 6.4) * GB).murmur(5 * GB)
    high = d.between(3.8, 5) * GB
    for spike in recurring(d, c.t[-1], d.between(1.5, 6) * MINUTE, high, d.between(5, 12)):
        c.spikes([spike, (spike[0] + spike[1], 3, -0.25 * high, "box")])
    return Made("spikes", c, d.one([32 * GB, 61 * GIB], [32 * GIB, 61 * GB]), note="6.2 -> 10.4 -> 4.8 GB within ten seconds")


@recipe(6)
def random_spikes(d):
    limit, every = d.limit(), d.one([5, 10], [2, 10, 30])
    c = steady(d, every * d.between(1500, 4500), every, limit, d.between(0.2, 0.5)).murmur(limit / 2)
    c.spikes(recurring(d, c.t[-1], every * d.between(50, 200), limit * d.between(0.1, 0.28), every * d.log_between(1, 8),
                       ragged=0.25, poisson=True, forms=("box", "decay", "hill")))
    return Made("spikes", c, limit)


@recipe(4)
def checkpoints(d):
    limit, every = d.limit(), d.one([5], [10])
    c = steady(d, d.between(8, 30) * HOUR, every, limit, d.between(0.3, 0.55)).murmur(limit / 2)
    c.spikes(recurring(d, c.t[-1], d.between(20, 60) * MINUTE, limit * d.between(0.12, 0.3), every * d.between(1, 6), jitter=0.03))
    return Made("spikes", c, limit, note="torch.save gathers the state")


@recipe(4)
def spikes_and_collector(d):
    limit, every = d.limit(), d.one([2, 5], [5, 10])
    c = steady(d, every * d.between(2000, 4500), every, limit, d.between(0.2, 0.45)).murmur(limit / 2)
    c.sawtooth(limit * d.between(0.01, 0.04), every * d.between(8, 30), 0.2)
    c.spikes(recurring(d, c.t[-1], every * d.between(80, 200), limit * d.between(0.15, 0.35), every * d.between(1, 10), ragged=0.15))
    return Made("spikes", c, limit)


@recipe(4)
def spikes_to_the_brim(d):
    limit, every = d.limit(), d.one([5, 10], [5, 10])
    c = steady(d, every * d.between(2000, 4500), every, limit, d.between(0.5, 0.7)).murmur(limit / 4)
    top = limit * d.between(0.9, 0.965)
    c.spikes(recurring(d, c.t[-1], every * d.between(40, 120), top - c.y[0], every * d.between(2, 8), ragged=0.005))
    c.y = [min(y, limit * 0.985) for y in c.y]
    return Made("spikes", c, limit, note="peaks at 90-96 % of the limit, and no higher")


@recipe(3)
def nightly(d):
    limit = d.limit()
    c = steady(d, d.between(5, 8) * DAY, d.one([60], [120]), limit, d.between(0.2, 0.4)).murmur(limit)
    c.spikes(recurring(d, c.t[-1], DAY, limit * d.between(0.25, 0.45), d.between(0.5, 2.5) * HOUR, jitter=0.01, forms=("box", "hill")))
    return Made("spikes", c, limit, accepts="stable", note="a job every night")


@recipe(3)
def tokenisation_returns(d):
    limit, every = d.one([61 * GIB], [61 * GB]), d.one([5, 10], [10, 15])
    c = Curve(d, d.between(1.5, 3) * DAY, every, 6.4 * GB).murmur(20 * GB)
    c.spikes(recurring(d, c.t[-1], d.between(2, 5) * HOUR, d.between(33, 46) * GB, d.between(3, 9) * MINUTE, ragged=0.06, forms=("hill",)))
    return Made("spikes", c, limit, note="a data set is tokenised now and then: 6.4 to 40-55 GB and back")


# ---- step ------------------------------------------------------------------------------------------------------------

@recipe(6)
def model_copies(d):
    limit, every = d.one([32 * GB, 61 * GIB], [32 * GIB, 61 * GB]), d.one([1, 5], [2, 10])
    c = Curve(d, every * d.between(600, 2500), every, d.between(6.5, 9) * GB).murmur(10 * GB)
    at = d.between(0.2, 0.4)
    for _ in range(d.whole(1, 2)):
        c.shift(at * c.t[-1], d.between(5.7, 6.3) * GB, every * d.between(0, 4))
        at += d.between(0.1, 0.25)
    return Made("step", c, limit, note="a second (and third) copy of the model")


@recipe(6)
def dataset_loaded(d):
    limit, every = d.limit(), d.one([5, 10], [2, 10])
    c = steady(d, every * d.between(800, 4000), every, limit, d.between(0.1, 0.35)).murmur(limit)
    c.shift(d.between(0.25, 0.65) * c.t[-1], limit * d.between(0.12, 0.45), d.between(0.002, 0.03) * c.t[-1])
    return Made("step", c, limit)


@recipe(4)
def workers_start(d):
    limit, every = d.one([32 * GB, 61 * GIB], [32 * GIB, 96 * GIB]), d.one([1, 5], [2, 5])
    c = Curve(d, every * d.between(800, 2500), every, d.between(6, 9) * GB).murmur(8 * GB)
    at, apart = d.between(0.25, 0.6) * c.t[-1], d.between(0.0005, 0.0015) * c.t[-1]
    for k in range(20):
        c.shift(at + k * apart, d.between(380, 420) * MB)
    return Made("step", c, limit, accepts="ramp", note="20 workers of 400 MB start in the middle of the run")


@recipe(3)
def step_in_collector(d):
    limit, every = d.limit(), d.one([5], [10])
    c = steady(d, every * d.between(1200, 3000), every, limit, d.between(0.15, 0.35)).murmur(limit)
    c.sawtooth(limit * d.between(0.02, 0.06), every * d.between(8, 40), 0.15)
    c.shift(d.between(0.3, 0.65) * c.t[-1], limit * d.between(0.18, 0.4), 2 * every)
    return Made("step", c, limit)


@recipe(3)
def step_to_the_brim(d):
    limit, every = d.limit(), d.one([5], [10])
    c = steady(d, every * d.between(1000, 2500), every, limit, d.between(0.4, 0.55)).murmur(limit / 4)
    c.shift(d.between(0.3, 0.65) * c.t[-1], limit * d.between(0.9, 0.95) - c.y[0], 3 * every)
    return Made("step", c, limit, note="a level shift to 90-95 % of the limit that holds")


@recipe(3)
def steps_spread(d):
    limit, every = d.limit(), d.one([10], [30])
    c = steady(d, every * d.between(1500, 4000), every, limit, d.between(0.1, 0.2)).murmur(limit / 2)
    for at in (0.2, 0.4, 0.6):
        c.shift((at + d.between(-0.06, 0.06)) * c.t[-1], limit * d.between(0.1, 0.18), 2 * every)
    return Made("step", c, limit, note="three level shifts, and flat since")


@recipe(3)
def step_down(d):
    limit, every = d.limit(), d.one([5], [10])
    c = steady(d, every * d.between(1000, 2500), every, limit, d.between(0.5, 0.8)).murmur(limit)
    c.shift(d.between(0.3, 0.7) * c.t[-1], -limit * d.between(0.15, 0.35), 2 * every)
    return Made("step", c, limit, accepts="stable", note="a copy is given back")


# ---- ramp ------------------------------------------------------------------------------------------------------------

@recipe(6)
def warms_up(d):
    limit, every = d.limit(), d.one([1, 5], [2, 10])
    c = Curve(d, every * d.between(600, 3000), every, limit * d.between(0.01, 0.08))
    c.approach(limit * d.between(0.25, 0.7), d.between(0.05, 0.2) * c.t[-1])
    return Made("ramp", c.murmur(limit), limit)


@recipe(6)
def fills_then_holds(d):
    limit, every = d.limit(), d.one([1, 10], [2, 5])
    c = Curve(d, every * d.between(600, 3000), every, limit * d.between(0.01, 0.08))
    c.shift(d.between(0, 0.02) * c.t[-1], limit * d.between(0.25, 0.75), d.between(0.1, 0.45) * c.t[-1])
    return Made("ramp", c.murmur(limit), limit, note="a straight line to a plateau")


@recipe(5)
def staged(d):
    limit, every = d.limit(), d.one([1, 5], [2, 5])
    c = Curve(d, every * d.between(600, 2500), every, limit * d.between(0.01, 0.05))
    at, stages = d.between(0.01, 0.03), d.whole(3, 6)
    for _ in range(stages):
        c.shift(at * c.t[-1], limit * d.between(0.35, 0.75) / stages, every * d.between(1, 6))
        at += d.between(0.03, 0.07)
    return Made("ramp", c.murmur(limit), limit, note="imports, data, model, optimizer, one after another")


@recipe(4)
def workers_at_start(d):
    limit, every = d.one([32 * GB, 61 * GIB], [32 * GIB, 96 * GIB]), d.one([1, 2], [1, 5])
    c = Curve(d, every * d.between(600, 1800), every, d.between(0.3, 1.2) * GB).murmur(8 * GB)
    apart = d.between(0.004, 0.012) * c.t[-1]
    c.shift(apart, d.between(5, 7) * GB, 4 * apart)
    for k in range(20):
        c.shift((3 + k) * apart, d.between(380, 420) * MB)
    return Made("ramp", c, limit, note="20 workers of 400 MB, one after another")


@recipe(6)
def saturates(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    c = Curve(d, every * d.between(1000, 4000), every, limit * d.between(0.1, 0.25))
    c.approach(limit * d.between(0.3, 0.6), d.between(0.12, 0.24) * c.t[-1])
    return Made("ramp", c.murmur(limit), limit, accepts="stable", note="slows down and ends below the limit")


@recipe(4)
def warms_up_in_collector(d):
    limit, every = d.limit(), d.one([1, 5], [2, 5])
    c = Curve(d, every * d.between(800, 2500), every, limit * d.between(0.01, 0.05))
    c.approach(limit * d.between(0.3, 0.6), d.between(0.05, 0.14) * c.t[-1]).murmur(limit)
    return Made("ramp", c.sawtooth(limit * d.between(0.01, 0.05), every * d.between(5, 30), 0.2), limit)


@recipe(3)
def overshoots(d):
    limit, every = d.limit(), d.one([2, 5], [1, 10])
    c = Curve(d, every * d.between(800, 2500), every, limit * d.between(0.01, 0.05))
    tau, high = d.between(0.05, 0.1) * c.t[-1], limit * d.between(0.3, 0.5)
    c.approach(high, tau)
    c.add(lambda t: 0.5 * high * (t / tau) ** 2 / 4 * math.exp(2 - 2 * t / tau) if t < 40 * tau else 0.0)
    return Made("ramp", c.murmur(limit), limit, accepts="stable", note="start-up needs more than the run")


@recipe(3)
def short_warm_up(d):
    limit, every = d.limit(), d.one([5, 10], [10, 30])
    c = Curve(d, every * d.between(1500, 4000), every, limit * d.between(0.01, 0.08))
    c.shift(0, limit * d.between(0.25, 0.7), d.between(0.01, 0.04) * c.t[-1])
    return Made("stable", c.murmur(limit), limit, accepts="ramp|step", note="up within 1-4 % of the history, flat since")
