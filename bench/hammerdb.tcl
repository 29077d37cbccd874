# One virtual user of HammerDB's TPROC-C: its own script, made by its own generator (src/postgresql/pgoltp.tcl). What stands here
# is only what the generator and the script ask of the program around them.
#
#   tclsh8.6 hammerdb.tcl DIR load|run PORT DATABASE WAREHOUSES
#
# DIR holds HammerDB's src and modules. `load` makes the whole database; `run` goes on until it is ended from outside. A process
# for each virtual user takes the place of HammerDB's threads: Debian's Pgtcl mixes up the statements of threads.

lassign $argv dir phase port database warehouses

package require Thread
::tcl::tm::path add [file join $dir modules]
package require tpcccommon
# The first virtual user of several is the one that watches the others.
proc tpcccommon::findvuposition {} { return {2 2} }
tsv::set application abort 0
if {[catch {package require Pgtcl} why]} { error "Pgtcl is not there (libpgtcl): $why" }
if {[info commands pg_notice_handler] eq ""} { proc pg_notice_handler args {} }
# HammerDB's own Pgtcl takes the formats of results and arguments before the arguments; Debian's knows no formats.
rename pg_exec_prepared pg_exec_prepared_text
proc pg_exec_prepared {connection name results formats args} { pg_exec_prepared_text $connection $name {*}$args }

# Progress messages of the script are discarded, as HammerDB's log is off by default; writes to a connection go there.
rename puts puts_channel
proc puts {args} {
    set has_channel [expr {[llength $args] > 1 + ([lindex $args 0] eq "-nonewline")}]
    if {$has_channel} { puts_channel {*}$args }
}

# HammerDB's editor takes the script, and its dictionaries the options.
set script ""
set dbdict {}
set configpostgresql {}
set opmode Local
proc .ed_mainFrame.mainwin.textFrame.left.text {verb where text} { append ::script $text }
proc .ed_mainFrame.notebook args {}
proc tk_messageBox args { return yes }
foreach name {load_virtual ed_edit_clear} { proc $name args {} }
proc quotemeta text { return $text }
proc setlocaltpccvars config {
    set values [list \
        host 127.0.0.1 port $::port sslmode disable user tpcc pass tpcc dbase $::database \
        superuser postgres superuserpass postgres defaultdbase postgres tspace pg_default \
        count_ware $::warehouses num_vu 1 partition false oracompat false cituscompat false storedprocs false \
        total_iterations 1000000000 raiseerror true keyandthink false rampup 0 duration 1 vacuum false dritasnap false \
        allwarehouse false timeprofile false async_scale false connect_pool false]
    foreach {name value} $values { uplevel 1 [list set pg_$name $value] }
}
source [file join $dir src/postgresql/pgoltp.tcl]
if {$phase eq "load"} { build_pgtpcc } else { loadtimedpgtpcc }
eval $script
