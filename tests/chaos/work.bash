#!/bin/bash
# The program of the workers of the chaos test: it does what the payload says, as one attempt of job.bash.
# The payload is a JSON string with the arguments of job.bash after DIR.
# Usage: work.bash DIR WORKER <PAYLOAD
read -r payload
words=${payload//\"/}
# Unquoted, because each word is an argument.
SCHEDD_NODE=$2 exec /bin/bash "$1/job.bash" "$1" $words
