#!/bin/sh
# From a csv file with columns of its own to calibrated probabilities beside its ids.
# Run examples/make_patients.py first, in the same folder; it writes patients.csv.
set -eu
awk -F, 'NR == 1 || $2 < "site-15"' patients.csv > known.csv
awk -F, 'NR == 1 || $2 >= "site-15"' patients.csv > new.csv
columns="--probabilities p_* --features x_* --label outcome --domain site --id case"
set -f # the shell leaves p_* and x_* to domaincal

domaincal inspect known.csv $columns
domaincal evaluate known.csv $columns --leave-one-domain-out --folds 5
domaincal fit known.csv $columns --batch 50 -o model.safetensors --force
domaincal apply model.safetensors new.csv $columns -o calibrated.csv --force
head -n 3 calibrated.csv
