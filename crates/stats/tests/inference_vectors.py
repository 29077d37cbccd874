#!/usr/bin/env python3
"""Writes stats/inference_vectors.rs: what numpy and scipy say about tests, intervals and fits.

Run by hand when a function is added (needs numpy and scipy 1.13 or later); the tests need only the result. Where scipy has no exact
answer, as for rank tests with ties, every arrangement is counted here.
"""
import itertools
import pathlib

import numpy as np
from scipy import optimize, stats

PAIRS = {
    "LOGS_10": [0.021, -0.008, 0.034, 0.012, 0.027, 0.003, 0.041, -0.015, 0.019, 0.030],
    "LOGS_6": [0.011, 0.013, 0.008, 0.021, 0.017, 0.009],
    "LOGS_TIED": [1.0, -1.0, 2.0, 2.0, 3.0, -2.0, 0.0, 4.0, 1.0, 5.0],
    "LOGS_12": [-0.3, 0.1, 0.4, -0.2, 0.25, 0.6, -0.05, 0.33, 0.7, -0.45, 0.9, 1.1],
}
TWO = [
    ("A_EQUAL", [1.1, 2.3, 0.7, 3.9, 2.8], "B_EQUAL", [3.1, 4.4, 2.9, 5.0, 1.9]),
    ("A_UNEQUAL", [12.0, 15.5, 9.1, 14.2], "B_UNEQUAL", [16.1, 13.3, 18.8, 17.0, 19.2, 15.9]),
    ("A_TIED", [1.0, 2.0, 2.0, 3.0], "B_TIED", [2.0, 3.0, 3.0, 4.0, 5.0]),
]
COVARIATE = [0.02, -0.11, 0.09, 0.01, 0.05, -0.06, 0.13, -0.12, 0.00, 0.08]
SKEWED = [3.2, 1.1, 0.4, 7.9, 2.2, 1.0, 0.9, 5.1, 2.7, 1.6, 12.3, 0.7]
CLIENTS = [1, 2, 4, 8, 16, 32, 64]


def signed_rank_p(d):
    """Every assignment of signs, with Pratt's zeros."""
    d = np.array(d)
    ranks = stats.rankdata(np.abs(d))[d != 0]
    observed = ranks[d[d != 0] > 0].sum()
    sums = np.array([np.dot(signs, ranks) for signs in itertools.product([0, 1], repeat=len(ranks))])
    return float(min(1.0, 2 * min((sums <= observed + 1e-9).mean(), (sums >= observed - 1e-9).mean())))


def rank_sum_p(a, b):
    """Every division into two samples of these sizes."""
    ranks = stats.rankdata(a + b)
    observed = ranks[: len(a)].sum()
    sums = np.array([sum(some) for some in itertools.combinations(ranks, len(a))])
    return float(min(1.0, 2 * min((sums <= observed + 1e-9).mean(), (sums >= observed - 1e-9).mean())))


def signed_rank_interval(d, level):
    """By searching the shift at which the test of all arrangements stops rejecting: no formula of ranks in it."""
    means = sorted((x + y) / 2 for i, x in enumerate(d) for y in d[i:])
    inside = [m for k, m in enumerate(means)
              if signed_rank_p([x - (m - 1e-9) for x in d]) > 1 - level or
              signed_rank_p([x - (m + 1e-9) for x in d]) > 1 - level]
    return [float(np.median(means)), float(inside[0]), float(inside[-1])]


def shift_interval(a, b, level):
    differences = sorted(y - x for x in a for y in b)
    inside = [m for m in differences
              if rank_sum_p(a, [y - (m - 1e-9) for y in b]) > 1 - level or
              rank_sum_p(a, [y - (m + 1e-9) for y in b]) > 1 - level]
    return [float(np.median(differences)), float(inside[0]), float(inside[-1])]


def equivalence_p(d, margin):
    low = stats.ttest_1samp(d, -margin, alternative="greater").pvalue
    return float(max(low, stats.ttest_1samp(d, margin, alternative="less").pvalue))


def t_interval(d, level):
    low, high = stats.t.interval(level, len(d) - 1, np.mean(d), stats.sem(d))
    return [float(np.mean(d)), float(low), float(high)]


def cv_interval(x, level):
    """Vangel's modified McKay interval from scipy's quantiles."""
    n, k = len(x), np.std(x, ddof=1) / np.mean(x)
    end = lambda u: k / np.sqrt(((u + 2) / n - 1) * k * k + u / (n - 1))
    tail = (1 - level) / 2
    return [float(k), float(end(stats.chi2.ppf(1 - tail, n - 1))), float(end(stats.chi2.ppf(tail, n - 1)))]


def intercept(y, x, level):
    fit = stats.linregress(x, y)
    half = stats.t.ppf(0.5 + level / 2, len(x) - 2) * fit.intercept_stderr
    return [float(fit.intercept), float(fit.intercept - half), float(fit.intercept + half),
            float(fit.slope), float(fit.rvalue**2)]


def throughput(law):
    lam, sigma, kappa = law
    n = np.array(CLIENTS)
    wobble = 1 + 0.03 * np.sin(np.arange(len(n)) * 2.3)
    return [float(v) for v in np.round(lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1)) * wobble, 1)]


def usl(x):
    n, x = np.array(CLIENTS, float), np.array(x)
    rows = np.stack([np.ones_like(n), n - 1, n * (n - 1)], 1) * (x / n)[:, None]
    terms, _ = optimize.nnls(rows, np.ones_like(n))
    lam, sigma, kappa = 1 / terms[0], terms[1] / terms[0], terms[2] / terms[0]
    fit = lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))
    return [float(lam), float(sigma), float(kappa), float(1 - ((x - fit) ** 2).sum() / ((x - x.mean()) ** 2).sum())]


def nested(restarts):
    """Kalibera and Jones' T, with numpy's variances; groups of equal size."""
    data = np.array(restarts)
    spans = data.var(axis=2, ddof=1).mean()
    runs = data.mean(axis=2).var(axis=1, ddof=1).mean()
    outer = data.mean(axis=(1, 2)).var(ddof=1)
    return [float(max(0, outer - runs / data.shape[1])), float(max(0, runs - spans / data.shape[2])), float(spans)]


def energy_division(x, side_min=4):
    """The division that maximises Matteson and James' statistic, by its definition."""
    def within(part):
        return np.mean([abs(a - b) for a, b in itertools.combinations(part, 2)])
    def q(at):
        left, right = x[:at], x[at:]
        across = np.mean([abs(a - b) for a in left for b in right])
        n, m = len(left), len(right)
        return n * m / (n + m) * (2 * across - within(left) - within(right))
    return max(range(side_min, len(x) - side_min + 1), key=q)


def ess(x):
    """Geyer's initial monotone sequence, by its definition."""
    d = np.array(x) - np.mean(x)
    rho = [float((d[lag:] * d[: len(d) - lag]).sum() / (d * d).sum()) for lag in range(len(d))]
    total, last = 0.0, np.inf
    for k in range((len(d) - 1) // 2):
        pair = min(rho[2 * k] + rho[2 * k + 1], last)
        if pair <= 0:
            break
        total, last = total + pair, pair
    return float(min(max(len(d) / max(2 * total - 1, 1), 1), len(d)))


def series(seed, phi, n):
    random = np.random.default_rng(seed)
    x = [float(random.normal())]
    for _ in range(n - 1):
        x.append(float(phi * x[-1] + random.normal()))
    return [round(100 + v, 3) for v in x]


def main():
    out = ["//! Made by inference_vectors.py with numpy and scipy. Do not edit.", ""]
    text = lambda value: repr(value).replace("True", "true").replace("inf", "f64::INFINITY")

    def const(name, kind, value):
        out.append(f"pub(crate) const {name}: {kind} = {value};")

    def table(doc, name, kind, rows):
        out.extend(["", f"/// {doc}", f"pub(crate) const {name}: &[{kind}] = &["])
        out.extend(f"    ({', '.join(row)})," for row in rows)
        out.append("];")

    for name, x in PAIRS.items():
        const(name, "&[f64]", f"&{x}")
    for name_a, a, name_b, b in TWO:
        const(name_a, "&[f64]", f"&{a}")
        const(name_b, "&[f64]", f"&{b}")
    const("COVARIATE", "&[f64]", f"&{COVARIATE}")
    const("SKEWED", "&[f64]", f"&{SKEWED}")
    ar = {f"SERIES_{i}": series(i, phi, n) for i, (phi, n) in enumerate([(0.0, 40), (0.6, 60), (0.8, 60), (-0.5, 40)])}
    for name, x in ar.items():
        const(name, "&[f64]", f"&{x}")

    table("Differences and p of the signed rank test.", "SIGNED_RANK", "(&[f64], f64)",
          [(name, text(signed_rank_p(x))) for name, x in PAIRS.items()])
    untied = [n for n in PAIRS if n != "LOGS_TIED"]
    for name in untied:
        assert abs(stats.wilcoxon(PAIRS[name], method="exact").pvalue - signed_rank_p(PAIRS[name])) < 1e-12
    table("Differences, level, centre with its interval.", "CENTRE", "(&[f64], f64, [f64; 3])",
          [(n, text(level), text(signed_rank_interval(PAIRS[n], level)))
           for n in untied for level in (0.9, 0.95) if n != "LOGS_12"])
    table("Two samples and p of the rank sum test.", "RANK_SUM", "(&[f64], &[f64], f64)",
          [(a, b, text(rank_sum_p(x, y))) for a, x, b, y in TWO])
    out.extend(["", "/// Two samples and a level.",
                "pub(crate) type TwoSamples = (&'static [f64], &'static [f64], f64, [f64; 3]);"])
    table("Two samples, level, shift with its interval.", "SHIFT", "TwoSamples",
          [(a, b, text(level), text(shift_interval(x, y, level)))
           for a, x, b, y in TWO[:2] for level in (0.9, 0.95)])
    table("Sample, mean with its 95 % interval, p that it is zero.", "MEAN_INTERVAL", "(&[f64], [f64; 3], f64)",
          [(n, text(t_interval(x, 0.95)), text(float(stats.ttest_1samp(x, 0).pvalue))) for n, x in PAIRS.items()])
    table("Sample, margin, p of equivalence.", "EQUIVALENCE", "(&[f64], f64, f64)",
          [(n, text(m), text(equivalence_p(PAIRS[n], m))) for n in ("LOGS_10", "LOGS_6") for m in (0.01, 0.02, 0.05)])
    table("Sample, coefficient of variation with its 95 % interval.", "CV_INTERVAL", "(&[f64], [f64; 3])",
          [(n, text(cv_interval(x, 0.95))) for n, x in [("A_UNEQUAL", TWO[1][1]), ("B_UNEQUAL", TWO[1][3]), ("SERIES_1", ar["SERIES_1"])]])
    boot = stats.bootstrap((SKEWED,), np.mean, n_resamples=200_000, method="BCa", random_state=1).confidence_interval
    table("Sample, mean's BCa interval of 95 %, from 200,000 resamples.", "BCA", "(&[f64], [f64; 2])",
          [("SKEWED", text([float(boot.low), float(boot.high)]))])
    table("Differences of outcome and covariate: intercept with its 95 % interval, slope, r squared.", "CONTROL",
          "(&[f64], &[f64], [f64; 5])", [("LOGS_10", "COVARIATE", text(intercept(PAIRS["LOGS_10"], COVARIATE, 0.95)))])
    table("p, degrees of freedom, quantile of chi-squared.", "CHI_SQUARED", "(f64, f64, f64)",
          [(text(p), text(float(df)), text(float(stats.chi2.ppf(p, df)))) for df in (1, 3, 9.5, 50, 400)
           for p in (0.001, 0.025, 0.5, 0.9, 0.975, 0.999)])
    table("Hits, tries, chance of a hit, chance of at most so many.", "BINOMIAL", "(u64, u64, f64, f64)",
          [(str(k), str(n), text(q), text(float(stats.binom.cdf(k, n, q))))
           for k, n, q in [(0, 5, 0.5), (3, 10, 0.5), (9, 10, 0.99), (95, 100, 0.95), (480, 1000, 0.5), (10, 10, 0.3)]])
    ranks = lambda n, q: (int(stats.binom.ppf(0.025, n, q)), int(stats.binom.ppf(0.975, n, q)) + 1)
    table("Values, quantile, ranks of its 95 % interval.", "RANKS", "(u64, f64, (u64, u64))",
          [(str(n), text(q), text(ranks(n, q)))
           for n, q in [(10, 0.5), (100, 0.5), (1000, 0.95), (1000, 0.99), (10_000, 0.999), (1_000_000, 0.99)]])
    nct = lambda effect, df, level: float(stats.nct.sf(stats.t.ppf(0.5 + level / 2, df), df, effect)
                                          + stats.nct.cdf(-stats.t.ppf(0.5 + level / 2, df), df, effect))
    table("Effect in standard errors, degrees of freedom, level, power.", "POWER", "(f64, f64, f64, f64)",
          [(text(e), text(float(df)), text(level), text(nct(e, df, level)))
           for e in (0.5, 2.0, 3.5) for df in (5, 9, 19, 199) for level in (0.9, 0.95)])
    mde = lambda df: float(optimize.brentq(lambda e: nct(e, df, 0.95) - 0.8, 1, 6))
    table("Degrees of freedom, effect in standard errors that a test of 95 % finds with 80 %.", "DETECTABLE", "(f64, f64)",
          [(text(float(df)), text(mde(df))) for df in (5, 9, 19, 199)])
    laws = [(1000.0, 0.05, 0.001), (500.0, 0.2, 0.0), (800.0, 0.0, 0.0004)]
    table("Throughput for 1 to 64 clients, lambda, sigma, kappa, r squared.", "USL", "([f64; 7], [f64; 4])",
          [(text(throughput(law)), text(usl(throughput(law)))) for law in laws])
    tree = [[[10.1, 10.4, 9.9], [11.0, 10.8, 11.1]], [[12.2, 12.0, 12.5], [11.6, 11.9, 11.7]],
            [[9.0, 9.2, 8.9], [9.9, 9.7, 9.8]]]
    flat = [[[10.0, 12.0, 8.0], [9.0, 11.0, 10.0]], [[11.0, 9.0, 10.0], [8.0, 10.0, 12.0]]]
    out.extend(["", "/// Restarts of runs of spans, and the variance that each level adds.",
                "pub(crate) type Nested = (&'static [&'static [&'static [f64]]], [f64; 3]);",
                "pub(crate) const NESTED: &[Nested] = &["])
    for data in (tree, flat):
        out.append(f"    ({text(data).replace('[', '&[')}, {text(nested(data))}),")
    out.append("];")
    step = [round(v + (3 if i >= 22 else 0), 3) for i, v in enumerate(ar["SERIES_0"])]
    const("STEP", "&[f64]", f"&{step}")
    table("Series and the index of the best division into two.", "DIVISION", "(&[f64], usize)",
          [("STEP", str(energy_division(step)))])
    table("Series and its effective sample size.", "EFFECTIVE", "(&[f64], f64)", [(n, text(ess(x))) for n, x in ar.items()])
    p = [0.01, 0.04, 0.03, 0.005]
    order = np.argsort(p)
    adjusted = np.empty(4)
    adjusted[order] = np.minimum(1, np.maximum.accumulate((4 - np.arange(4)) * np.array(p)[order]))
    table("Chances and what Holm makes of them.", "HOLM", "([f64; 4], [f64; 4])",
          [(text(p), text([float(v) for v in adjusted]))])
    out.append("")
    (pathlib.Path(__file__).parent / "stats" / "inference_vectors.rs").write_text("\n".join(out))


if __name__ == "__main__":
    main()
