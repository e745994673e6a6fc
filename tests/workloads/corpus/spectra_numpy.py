#!/usr/bin/env python3
"""Spectra of a signal, each of which is put into a table for a plot."""
import numpy as np

import said

table = {}
rng = np.random.default_rng(1)


def spectrum(samples):
    window = np.hanning(samples.size)
    return np.abs(np.fft.rfft(samples * window))


def put_into_table(key, values):
    table[key] = np.repeat(values, 2)
    said.keeps(table[key].nbytes)


said.ready("put_into_table")
number = 0
while True:
    values = spectrum(rng.standard_normal(65536))
    if number % 4 == 0:
        put_into_table(number, values[:20000])
    number += 1
    said.step(0.02)
