#!/bin/bash
# One attempt of a job of the chaos test. It reports by appending lines to the file `effects`:
#   B|T|E run attempt fence node pid wall_us boot_s code version
# B is its begin, T comes every 100 ms while it lives, and E is its end with the exit code.
# Each line has the version of the job's definition. A killed attempt leaves no E; its last T says
# until when it lived.
# No process is started to write a line or to wait, because two cores must bear many of these jobs.
# Usage: job.bash DIR WHAT MILLIS [NUMBER [VERSION]]
dir=$1 what=$2 millis=$3 number=${4:-0} version=${5:--}
exec 9<>"$dir/never" # a fifo nobody writes to: reading it with a limit is a sleep

tell() {
  local up rest
  read -r up rest </proc/uptime
  echo "$1 $SCHEDD_RUN_ID $SCHEDD_ATTEMPT $SCHEDD_FENCE $SCHEDD_NODE $BASHPID ${EPOCHREALTIME/./} $up ${2:--} $version" >>"$dir/effects"
}

work() {
  local left nap end=$((${EPOCHREALTIME/./} + $1 * 1000))
  while left=$((end - ${EPOCHREALTIME/./})); ((left > 0)); do
    printf -v nap '0.%06d' $((left > 100000 ? 100000 : left))
    read -r -t "$nap" -u 9
    tell T
  done
}

finish() {
  tell E "$1"
  exit "$1"
}

if [ "$what" = ghost ]; then # what `daemonise` leaves behind: deaf to TERM, and holding on to the job's output
  trap '' TERM
  work "$millis"
  exit 0
fi
if [ "$what" = is-done ]; then # a check: whether an attempt of this run told that it succeeded; 1 if none did
  exec grep -q "^E $SCHEDD_RUN_ID .* 0 [^ ]*\$" "$dir/effects"
fi
tell B
case $what in
  work) work "$millis" ;;
  fail-first) # the first NUMBER attempts fail
    work "$millis"
    [ "$SCHEDD_ATTEMPT" -gt "$number" ] || finish 1
    ;;
  flood) # NUMBER bytes of output
    head -c "$number" /dev/zero
    work "$millis"
    ;;
  daemonise)
    setsid "$BASH" "$0" "$dir" ghost 60000 &
    work "$millis"
    ;;
  orphan) # the first NUMBER attempts end with 7, whatever becomes of what they leave behind
    "$BASH" "$0" "$dir" ghost 60000 &
    work "$millis"
    [ "$SCHEDD_ATTEMPT" -gt "$number" ] || finish 7
    ;;
  deaf)
    trap '' TERM
    work "$millis"
    ;;
  probe)
    [ "/proc/$BASHPID/fd/0" -ef /dev/null ] || finish 3
    read -r -t 1 _
    [ $? -eq 1 ] || finish 4 # not its end, which comes at once
    for fd in 0 1 2; do [ ! -t "$fd" ] || finish 5; done
    (: </dev/tty) 2>/dev/null && finish 6
    work "$millis"
    ;;
  fork) # NUMBER processes that are left behind
    for ((n = 0; n < number; n++)); do
      (trap '' TERM; read -r -t 60 -u 9) &
    done
    work "$millis"
    ;;
  exits) # NUMBER: the codes of the first attempts
    work "$millis"
    codes=($number)
    finish "${codes[SCHEDD_ATTEMPT - 1]:-0}"
    ;;
  grow) # later attempts than the first take NUMBER
    if [ "$SCHEDD_ATTEMPT" -gt 1 ]; then millis=$number; fi
    work "$millis"
    ;;
  poison) # kills the node that runs it, each time
    kill -9 "$(cat "$dir/pid.$SCHEDD_NODE")"
    work 60000
    ;;
  *) finish 2 ;;
esac
finish 0
