#!/usr/bin/env python3
"""Writes stats/vectors.rs: what numpy and scipy say about a few samples.

Run by hand when a function is added (needs numpy and scipy); the tests need only the result.
"""
import pathlib

import numpy as np
from scipy import stats

SAMPLES = {
    "ONE": [42.0],
    "TWO": [1.0, 4.0],
    "EVEN": [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0],
    "TPS": [3704.1, 3688.4, 3741.9, 3650.2, 3717.3, 3699.9, 3702.0, 3733.8, 3690.1, 3706.6, 3711.2, 3680.7],
    "OFFSET": [1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4],
    "RISING": [1.0, 2.0, 2.5, 2.4, 3.0, 3.6, 3.3, 4.0, 4.4, 5.0],
    "TIED": [1.0, 1.0, 2.0, 2.0, 1.0, 2.0, 3.0, 3.0],
}


def mann_kendall(x):
    """S and p from scipy's building blocks, by the textbook's formula."""
    n = len(x)
    s = sum(int(np.sign(x[j] - x[i])) for i in range(n) for j in range(i + 1, n))
    ties = sum(t * (t - 1) * (2 * t + 5) for t in np.unique(x, return_counts=True)[1])
    var = (n * (n - 1) * (2 * n + 5) - ties) / 18
    return s, 2 * stats.norm.sf(max(abs(s) - 1, 0) / var**0.5)


def lag_1(x):
    d = np.array(x) - np.mean(x)
    return float((d[:-1] * d[1:]).sum() / (d * d).sum())


def main():
    out = ["//! Made by vectors.py with numpy and scipy. Do not edit.", ""]
    for name, x in SAMPLES.items():
        out.append(f"pub(crate) const {name}: &[f64] = &{x};")
    out += ["", "/// Sample, mean, sample sd, median, MAD, quantiles 0.05, 0.25 and 0.9.",
            "pub(crate) type Description = (&'static [f64], f64, f64, f64, f64, [f64; 3]);",
            "pub(crate) const DESCRIBE: &[Description] = &["]
    for name, x in SAMPLES.items():
        sd = float(np.std(x, ddof=1)) if len(x) > 1 else float("nan")
        q = [float(v) for v in np.quantile(x, [0.05, 0.25, 0.9])]
        sd_text = "f64::NAN" if np.isnan(sd) else repr(sd)
        out.append(f"    ({name}, {float(np.mean(x))!r}, {sd_text}, {float(np.median(x))!r}, "
                   f"{float(stats.median_abs_deviation(x))!r}, {q}),")
    out += ["];", "", "/// Sample, S, p, autocorrelation at lag 1.",
            "pub(crate) const TREND: &[(&[f64], i64, f64, f64)] = &["]
    for name in ["EVEN", "TPS", "RISING", "TIED"]:
        s, p = mann_kendall(SAMPLES[name])
        out.append(f"    ({name}, {s}, {float(p)!r}, {lag_1(SAMPLES[name])!r}),")
    out += ["];", "", "/// Two samples and p of the t test with pooled variance.",
            "pub(crate) const T_TEST: &[(&[f64], &[f64], f64)] = &["]
    for a, b in [("EVEN", "RISING"), ("EVEN", "TWO"), ("RISING", "TIED"), ("TPS", "TWO")]:
        out.append(f"    ({a}, {b}, {float(stats.ttest_ind(SAMPLES[a], SAMPLES[b]).pvalue)!r}),")
    out += ["];", "", "/// p, degrees of freedom, Student t quantile.",
            "pub(crate) const STUDENT_T: &[(f64, f64, f64)] = &["]
    for df in [1, 2, 3, 4.5, 5, 9, 10, 29, 30, 100, 1000, 1e6]:
        for p in [0.001, 0.1, 0.5, 0.75, 0.9, 0.95, 0.975, 0.995, 0.9995]:
            out.append(f"    ({p!r}, {float(df)!r}, {float(stats.t.ppf(p, df))!r}),")
    out += ["];", "", "/// z and the two-sided normal p.", "pub(crate) const NORMAL: &[(f64, f64)] = &["]
    for z in [0.0, 0.1, 0.5, 1.0, 1.959963984540054, 2.5758293035489004, 3.0, 3.5, 3.6, 4.0, 6.0, 10.0]:
        out.append(f"    ({z!r}, {float(2 * stats.norm.sf(z))!r}),")
    out += ["];", ""]
    text = "\n".join(out).replace("-0.0,", "0.0,")
    (pathlib.Path(__file__).parent / "stats" / "vectors.rs").write_text(text)


if __name__ == "__main__":
    main()
