_schedctl() {
    local -a words=()
    local i piece index=0 glue= breaks="${COMP_WORDBREAKS//[^@:=]/}"
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        piece="${COMP_WORDS[i]}"
        if [[ -n $breaks && i -gt 0 && ( -n $glue || $piece == [$breaks]* ) ]]; then
            words[${#words[@]}-1]+="$piece"
        else
            words+=("$piece")
        fi
        glue=
        [[ -n $breaks && -n $piece && -z ${piece//[$breaks]/} ]] && glue=1
        [[ i -eq COMP_CWORD ]] && index=$((${#words[@]} - 1))
    done
    local word="${words[index]}" prefix= line
    [[ -n $breaks && $word == *[$breaks]* ]] && prefix="${word%"${word##*[$breaks]}"}"
    COMPREPLY=()
    while IFS= read -r line; do
        [[ -n $line ]] && COMPREPLY+=("${line#"$prefix"}")
    done < <(_CLAP_COMPLETE_INDEX="$index" SCHEDCTL_COMPLETE=bash schedctl -- "${words[@]}" 2>/dev/null; echo)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o nosort -F _schedctl schedctl 2>/dev/null || complete -o bashdefault -F _schedctl schedctl
