# Names for the scripts in script/, which do all the work. `just --list` shows them.

# Installs what is missing, builds, and shows schedd at work.
demo:
    ./script/demo

# Runs every check and test.
test:
    ./script/test

# Checks the HTTP API with a real Prometheus.
api-test:
    ./script/api-test

# Checks the traces of runs, with a schedd that has the feature otel.
otel-test *args:
    ./script/otel-test {{args}}

# Hurts real nodes and holds what their jobs did against the promises.
chaos *args:
    ./script/chaos {{args}}

# Runs the long tests: many seeds of chaos, then a steady run.
soak *args:
    ./script/soak {{args}}

# Measures what the README and the notes say.
bench *args:
    ./script/bench {{args}}

# Fuzzes every parser.
fuzz *args:
    ./script/fuzz {{args}}

# Holds the dependencies against known faults and licences.
audit:
    ./script/audit

# Builds the Debian package.
package *args:
    ./script/package {{args}}
