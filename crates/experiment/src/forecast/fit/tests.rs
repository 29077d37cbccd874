//! Which steps are taken, and which changes are reported.

use model::experiment::case::ServerSource;

use super::*;
use crate::plan::file::Override;

/// Two processors, with all binaries present.
pub(super) fn here() -> Limits {
    Limits {
        n_cpus: 2,
        memory_bytes: 24 << 30,
        commit: None,
        free_bytes: 40 << 30,
        wal_free_bytes: None,
        budget_s: 900.0,
        speed: MachineSpeed::default(),
        present: Present::default(),
        versions: Versions::default(),
        here: ["9.6", "10", "11", "12", "13", "14", "15", "16", "17", "18"].map(String::from).into(),
    }
}

pub(super) fn study(name: &str) -> Experiment {
    let text = crate::plan::builtin::text(name, 2).unwrap();
    crate::plan::file::parse(name, &text, &[]).unwrap()
}

/// A study brought to a machine and fitted, with what is left of its figures.
fn fitted(name: &str, limits: &Limits) -> (Experiment, Vec<FigureRow>) {
    let asked = study(name);
    let mut experiment = asked.clone();
    places::bring_here(&mut experiment, &places::Lacks::default());
    fit_without(&mut experiment, limits, &[]);
    let site = crate::plan::expand::PlanResources {
        memory_bytes: Some(limits.memory_bytes),
        n_cpus: limits.n_cpus,
        ..crate::plan::expand::PlanResources::unseen(&experiment)
    };
    crate::plan::expand::plan(&experiment, &site).unwrap_or_else(|error| panic!("{name}: {error}"));
    let figures = left::table(&asked, &experiment, &NotHere::default(), limits.n_cpus);
    (experiment, figures)
}

const STUDIES: [&str; 6] =
    ["versions", "m5-metal", "piops", "five-clouds", "low-variation", "numa-hugepages"];

#[test]
fn both_sides_of_a_question_are_kept_before_repeats() {
    let file = "[experiment]\nname = \"sides\"\nrepeats = 3\n[server]\nsettings.jit = [\"on\", \"off\"]\n\
                [workload]\nclients = 4\nscale = 4\n[run]\nramp_up = \"2s\"\nmeasure = \"8s\"\n";
    let asked = crate::plan::file::parse("sides", file, &[]).unwrap();
    let repeats = [40.0, 60.0, 120.0].map(|budget_s| {
        let mut experiment = asked.clone();
        fit_without(&mut experiment, &Limits { budget_s, ..here() }, &[]);
        assert_eq!(experiment.server.settings["jit"].all().len(), 2, "{budget_s} s");
        experiment.experiment.repeats
    });
    assert!(repeats[0] == 1 && repeats[2] > 1, "{repeats:?}");
}

#[test]
fn an_outage_keeps_the_load_after_it_however_short_the_time() {
    for budget_s in [60.0, 300.0, 900.0] {
        let (experiment, _) = fitted("failover", &Limits { budget_s, ..here() });
        // At 14 s at the latest, with a second until the promotion and five to see what follows.
        let least = Span::from_s(20);
        assert!(experiment.run.measure.all().iter().all(|measure| *measure >= least), "{budget_s} s");
        assert_eq!(experiment.outage.0.len(), 1);
    }
}

#[test]
fn every_study_fits_a_quarter_of_an_hour_on_a_small_machine_with_all_its_figures() {
    for name in STUDIES {
        let (experiment, figures) = fitted(name, &here());
        assert!(estimated(&experiment, &here()).total_s() <= 900.0, "{name}");
        let lost: Vec<&FigureRow> = figures.iter().filter(|row| row.fate == FigureState::Dropped).collect();
        // Our own study has the most levels, and two hundred cases.
        let allowed = usize::from(name == "versions");
        assert!(figures.len() >= 2 && lost.len() <= allowed, "{name}: {figures:#?}");
        assert!(experiment.experiment.repeats >= study(name).experiment.repeats.min(2), "{name}");
    }
}

#[test]
fn levels_come_before_lengths() {
    let (m5, figures) = fitted("m5-metal", &Limits { budget_s: 1800.0, ..here() });
    assert_eq!(m5.workload.clients.all(), [1, 16, 32, 64, 128]);
    assert_eq!(m5.server.version.as_ref().unwrap().all().len(), 5);
    assert_eq!(m5.server.settings["wal_compression"].all().len(), 2);
    assert!(m5.run.measure.all()[0] > Span::from_s(5), "what is left goes into the length");
    let left: Vec<(&str, &[String])> =
        figures.iter().map(|row| (row.fate.word(), row.left.as_slice())).collect();
    assert_eq!(left[0].0, "thinned");
    assert_eq!(left[0].1[0], "clients 5 of 7 (1, 16, 32, 64, 128)");
    assert_eq!((left[2].0, left[2].1[1].as_str()), ("kept", "wal_compression 2 of 2 (on, off)"));
    let (piops, _) = fitted("piops", &here());
    assert!(piops.workload.transactions.as_ref().unwrap().all().len() >= 3 && piops.target.len() == 2);
    assert_eq!(piops.workload.clients.all(), [16, 32, 48, 64]);
    // Nothing but levels can use the time of runs that end by their number.
    let (longer, _) = fitted("piops", &Limits { budget_s: 1800.0, ..here() });
    assert_eq!(longer.workload.clients.all(), [16, 32, 48, 64, 80]);
}

#[test]
fn clouds_disks_sizes_and_regions_are_all_there() {
    let (clouds, figures) = fitted("five-clouds", &here());
    let values = |label: fn(&model::experiment::target::TargetSection) -> Option<String>| {
        let all = clouds.target.iter().filter_map(label);
        all.collect::<std::collections::BTreeSet<String>>().len()
    };
    assert_eq!(values(|target| target.provider.clone()), 5);
    assert_eq!((values(|target| target.disk.clone()), values(|target| target.size.clone())), (2, 2));
    assert!(values(|target| target.region.clone()) > 5, "{figures:?}");
    assert!(figures.iter().all(|row| row.fate != FigureState::Dropped), "{figures:?}");
    // In five minutes the first figures are left, and no cloud is left out.
    let (clouds, figures) = fitted("five-clouds", &Limits { budget_s: 300.0, ..here() });
    assert_eq!((figures[0].fate, figures[3].fate), (FigureState::Kept, FigureState::Dropped), "{figures:?}");
    let providers: std::collections::BTreeSet<_> =
        clouds.target.iter().map(|target| &target.provider).collect();
    assert_eq!(providers.len(), 5);
}

#[test]
fn a_bar_for_each_region_needs_both_regions_of_each_cloud() {
    let clouds = |budget_s: f64| fitted("five-clouds", &Limits { budget_s, ..here() });
    let (experiment, figures) = clouds(240.0);
    assert_eq!(figures[0].fate, FigureState::Kept, "{figures:?}");
    assert_eq!(figures[0].left[1], "region 10 of 10 by provider");
    let regions = |provider: &str, size: &str| {
        let is_one = |target: &&model::experiment::target::TargetSection| {
            let of = (target.provider.as_deref(), target.size.as_deref(), target.disk.as_deref());
            of == (Some(provider), Some(size), Some("network"))
        };
        experiment.target.iter().filter(is_one).count()
    };
    for provider in ["AWS", "GCP", "Azure", "DigitalOcean", "UpCloud"] {
        assert_eq!(regions(provider, "small"), 2, "{provider}");
    }
    // What is lost of any cloud shows, and drops the figure.
    let lost = figures.last().unwrap();
    assert_eq!(lost.fate, FigureState::Dropped, "{figures:?}");
    assert!(lost.left[1].contains("DigitalOcean 0 of 2"), "{figures:?}");
    // Both clouds have local disks in the study: one of them is half of the bars.
    for (budget_s, n_kept) in [(240.0, 2), (600.0, 4), (1800.0, 4)] {
        let (_, figures) = clouds(budget_s);
        assert!(
            figures[..n_kept].iter().all(|row| row.fate == FigureState::Kept),
            "{budget_s} s: {figures:?}"
        );
        assert_eq!(figures[1].left[0], "disk 4 of 4 by provider", "{budget_s} s");
    }
}

#[test]
fn figures_that_a_machine_cannot_give_are_named_with_the_reason_and_keep_nothing() {
    let of = |name: &str, lacking: &dyn Fn(&str) -> Option<String>, refused: &[OsRefusal]| {
        let mut experiment = study(name);
        let asked = experiment.clone();
        let not_here = NotHere::new(&experiment, lacking, refused);
        not_here.remove(&mut experiment);
        fit_without(&mut experiment, &here(), refused);
        let rows = left::table(&asked, &experiment, &not_here, 2);
        rows.iter().map(|row| format!("{}: {}", row.fate.word(), row.left.join("; "))).collect::<Vec<_>>()
    };
    let no_counters = |metric: &str| metric.starts_with("counters.").then(|| "no PMU".to_string());
    let expected = [
        "kept: huge_pages 2 of 2 (on, off); repeats 5 of 5",
        "not here: this machine has one NUMA node",
        "not here: no PMU",
        "not here: no PMU",
    ];
    assert_eq!(of("numa-hugepages", &no_counters, &system::one_node()), expected);
    assert!(of("numa-hugepages", &|_| None, &[])[3].contains(": numa 2 of 2 (local, remote); repeats"));
    assert_eq!(of("low-variation", &no_counters, &[])[1..], ["kept: repeats 5 of 5", "not here: no PMU"]);
    let mut off = study("low-variation");
    off.run.counters = Levels::one(false);
    let not_here = NotHere::new(&off, &|_| None, &[]);
    not_here.remove(&mut off);
    assert_eq!(off.figure.len(), 2, "nobody counts");
}

#[test]
fn levels_come_back_before_runs_become_longer_and_the_reason_is_the_true_one() {
    let long = Limits { budget_s: 7200.0, ..here() };
    let (piops, figures) = fitted("piops", &long);
    assert_eq!(piops.workload.clients.all(), [16, 32, 48, 64, 80, 96]);
    assert_eq!(piops.workload.transactions.as_ref().unwrap().all().len(), 10);
    assert!(figures.iter().all(|row| row.fate == FigureState::Kept), "{figures:?}");
    let (m5, _) = fitted("m5-metal", &long);
    assert_eq!(m5.workload.clients.all(), [1, 16, 32, 64, 128, 256, 512]);
    assert_eq!((m5.experiment.repeats, m5.workload.threads.as_ref().unwrap().all().len()), (3, 7));
    assert!(m5.run.measure.all()[0] > Span::from_s(20), "{:?}", m5.run.measure);
    let why = |name: &str, budget_s: f64| {
        let mut experiment = study(name);
        let changes = fit_without(&mut experiment, &Limits { budget_s, ..here() }, &[]);
        let of_clients =
            changes.iter().find(|change| change.key == "workload.clients").map(|change| change.why.clone());
        of_clients.unwrap_or_default()
    };
    assert_eq!(why("m5-metal", 1800.0), "time");
    assert_eq!(
        why("low-variation", 1800.0),
        "at most 4 clients per processor, as their number does not vary"
    );
}

#[test]
fn binaries_that_are_yet_to_be_fetched_decide_no_level() {
    let fetched = Limits { budget_s: 240.0, ..here() };
    let missing = Limits { here: Vec::new(), ..fetched.clone() };
    let [(now, figures), (later, figures_later)] = [&missing, &fetched].map(|limits| fitted("piops", limits));
    assert_eq!(figures, figures_later);
    assert!(figures.iter().all(|row| row.fate != FigureState::Dropped), "{figures:?}");
    assert_eq!(now, later);
    let needed = estimated(&now, &missing);
    assert!(needed.fetch_s > 0.0 && needed.total_s() <= 240.0, "{needed:?}");
}

#[test]
fn the_speed_of_a_machine_decides_no_level() {
    let busy = MachineSpeed::new(0.3);
    for (name, budget_s) in
        [("m5-metal", 1800.0), ("piops", 600.0), ("five-clouds", 900.0), ("low-variation", 300.0)]
    {
        let quiet = Limits { budget_s, ..here() };
        let (calm, busy) = (fitted(name, &quiet), fitted(name, &Limits { speed: busy, ..quiet.clone() }));
        assert_eq!(calm.1, busy.1, "{name} in {budget_s} s");
        assert_eq!(calm.0.workload.scale, busy.0.workload.scale, "{name}");
        assert!(calm.0.run.measure.all()[0] >= busy.0.run.measure.all()[0], "{name}");
    }
}

#[test]
fn a_curve_keeps_four_numbers_of_clients_and_one_beyond_the_peak() {
    for (n_cpus, budget_s) in [(1, 900.0), (2, 600.0), (8, 900.0), (32, 900.0)] {
        let (m5, figures) = fitted("m5-metal", &Limits { n_cpus, budget_s, ..here() });
        let clients = m5.workload.clients.all();
        assert!(
            figures.iter().all(|row| row.fate != FigureState::Dropped),
            "{n_cpus} processors: {figures:?}"
        );
        assert!(
            clients.len() >= 4 && clients.contains(&64) && clients[clients.len() - 1] > 8 * n_cpus,
            "{clients:?}"
        );
    }
    let (_, figures) = fitted("m5-metal", &Limits { n_cpus: 96, budget_s: 3600.0, ..here() });
    assert!(figures[0].left[0].ends_with("none of them surely beyond the peak"), "{figures:?}");
}

#[test]
fn what_cannot_be_made_shorter_is_longer_than_asked() {
    for name in STUDIES.into_iter().chain(["quick"]) {
        let text = crate::plan::builtin::text(name, 2).unwrap();
        let mut experiment = crate::plan::file::parse(name, &text, &[]).unwrap();
        let fitted = fit(&mut experiment, &Limits { budget_s: 10.0, ..here() });
        let outlook = fitted.outlook.clone().expect("it can be planned");
        assert!(outlook.planned_s() > 10.0, "{name}: {fitted:?}");
        assert!(experiment.workload.clients.all().len() <= 2 || !experiment.target.is_empty(), "{name}");
    }
}

/// The first number of a new user: of the clients that keep the processors busy, in less time than was asked for.
#[test]
fn half_a_minute_is_enough_for_a_number() {
    for (budget_s, n_clients, repeats) in [(30.0, 1, 1), (44.0, 1, 2), (78.0, 2, 2)] {
        for speed in [MachineSpeed::default(), MachineSpeed::new(0.8)] {
            let mut experiment = study("quick");
            let limits = Limits { budget_s, speed, ..here() };
            let fitted = fit(&mut experiment, &limits);
            let outlook = fitted.outlook.expect("it can be planned");
            let all_s = outlook.planned_s() + outlook.repeats_s;
            assert!(all_s <= budget_s || speed != MachineSpeed::default(), "{budget_s} s: {experiment:?}");
            let clients = experiment.workload.clients.all();
            let n_sure = experiment.experiment.repeats - fitted.spare_blocks;
            assert_eq!((clients.len(), n_sure), (n_clients, repeats), "{budget_s} s");
            assert_eq!(experiment.experiment.repeats, 4, "more are made while there is time");
            assert!(n_clients > 1 || clients == [4], "{clients:?}");
        }
    }
    let mut experiment = study("quick");
    fit(&mut experiment, &Limits { budget_s: 30.0, ..here() });
    assert_eq!(experiment.run.measure.all(), [Span::from_s(6)], "what is left goes into the length");
}

#[test]
fn only_versions_that_are_not_installed_are_fetched() {
    let fetch_s = |versions: Versions, here: &[&str], version: &str| {
        let text = format!("experiment.name = \"x\"\n{version}");
        let mut experiment = crate::plan::file::parse("x", &text, &[]).unwrap();
        let here = here.iter().map(|series| series.to_string()).collect();
        fit(&mut experiment, &Limits { versions, here, ..self::here() }).fetch_s
    };
    let installed = || {
        let source = ServerSource::Installed("15.20".parse().unwrap());
        Versions { default: Some("15.20".parse().unwrap()), sources: [("15.20".to_string(), source)].into() }
    };
    assert_eq!(fetch_s(Versions::default(), &[], ""), 20.0);
    assert_eq!(fetch_s(Versions::default(), &["18"], ""), 0.0);
    assert_eq!(fetch_s(installed(), &[], ""), 0.0);
    // Each series once.
    assert_eq!(fetch_s(installed(), &["14"], "server.version = [\"14\", \"16\"]"), 20.0);
}

#[test]
fn the_cache_that_the_planner_believes_in_keeps_its_relation_to_shared_buffers() {
    let settings = |name: &str, memory_bytes: u64| {
        let (experiment, _) = fitted(name, &Limits { memory_bytes, ..here() });
        let of = |name: &str| experiment.server.settings[name].all()[0].0.clone();
        [of("shared_buffers"), of("effective_cache_size")]
    };
    assert_eq!(settings("piops", 24 << 30), ["25%", "67%"]);
    assert_eq!(settings("low-variation", 24 << 30), ["25%", "50%"]);
    assert_eq!(settings("piops", 64 << 30), ["8GB", "22000MB"]);
}

#[test]
fn on_one_numa_node_the_study_of_memory_is_one_of_huge_pages() {
    let mut experiment = study("numa-hugepages");
    let changes = fit_without(&mut experiment, &here(), &system::one_node());
    let numa = FitChange {
        key: "os.numa".to_string(),
        from: "local, remote".to_string(),
        to: "as it is".to_string(),
        why: "this machine has one NUMA node".to_string(),
    };
    assert_eq!(changes[0], numa);
    let site =
        crate::plan::expand::PlanResources { memory_bytes: Some(24 << 30), n_cpus: 2, ..Default::default() };
    let plan = crate::plan::expand::plan(&experiment, &site).unwrap();
    assert_eq!((plan.factors, plan.cases.len(), plan.baseline), (vec!["os.huge_pages".to_string()], 2, 1));
}

#[test]
fn the_study_of_versions_keeps_its_ends_and_what_lies_between() {
    let mut experiment = study("versions");
    fit(&mut experiment, &here());
    let versions: Vec<String> =
        experiment.server.version.as_ref().unwrap().all().iter().map(ToString::to_string).collect();
    assert_eq!(versions, ["9.6", "12", "15", "18"]);
    let clients = experiment.workload.clients.all();
    assert_eq!((clients.first(), clients.last()), (Some(&1), Some(&64)));
    assert!(clients.len() >= 3, "{clients:?}");
}

#[test]
fn wal_is_as_large_as_its_own_file_system_allows() {
    let limits = Limits { wal_free_bytes: Some(4 << 30), ..here() };
    let max_wal_size = |has_directory: bool, limits: &Limits| {
        let mut experiment = study("low-variation");
        if !has_directory {
            experiment.server.wal_directory = None;
        }
        fit_without(&mut experiment, limits, &[]);
        experiment.server.settings["max_wal_size"].all()[0].0.clone()
    };
    assert_eq!(max_wal_size(true, &limits), "1024MB", "4 GiB are free, whatever the data has");
    assert_eq!(max_wal_size(false, &limits), "5120MB");
    assert_eq!(max_wal_size(true, &Limits { wal_free_bytes: Some(4 << 40), ..here() }), "250GB");
}

#[test]
fn clients_that_are_not_varied_do_not_queue_for_the_processors() {
    let clients = |name: &str, sets: &[&str]| {
        let overrides: Vec<Override> = sets.iter().map(|set| Override::parse(set).unwrap()).collect();
        let text = crate::plan::builtin::text(name, 2).unwrap();
        let mut experiment = crate::plan::file::parse(name, &text, &overrides).unwrap();
        fit_without(&mut experiment, &here(), &[]);
        experiment.workload.clients.all().to_vec()
    };
    assert_eq!(clients("low-variation", &[]), [8]);
    assert_eq!(clients("numa-hugepages", &[]), [8]);
    // Clients that wait for their due time, or think, do not keep a processor busy.
    assert_eq!(clients("low-variation", &["workload.pace=500/s"]), [64]);
    let thinking = ["workload.kind=tpcc", "workload.think=spec", "workload.clients=64"];
    assert_eq!(clients("quick", &thinking), [64]);
}

#[test]
fn selectors_stay_as_long_as_a_level_of_theirs_does() {
    let text = "[experiment]\nname = \"x\"\nbaseline = {prewarm = false, clients = [1, 640]}\n\
                exclude = [{prewarm = true, measure = \"60s\"}, {clients = 640}]\n[workload]\nclients = [1, 640]\n\
                [run]\nmeasure = [\"60s\", \"30s\"]\n[prepare]\nprewarm = [true, false]\n";
    let mut experiment = crate::plan::file::parse("x", text, &[]).unwrap();
    let changes = changes::drop_selectors(&mut experiment);
    assert_eq!(changes, []);
    experiment.workload.clients = Levels::one(1);
    let changes = changes::drop_selectors(&mut experiment);
    assert_eq!(changes, [changes::dropped("experiment.exclude", changes::LEVELS_LEFT_OUT)]);
    let header = &experiment.experiment;
    assert_eq!(header.baseline.as_ref().unwrap().levels["clients"].all().len(), 1);
    assert_eq!(header.exclude.len(), 1);
}

#[test]
fn threads_are_no_more_than_the_clients_that_are_left() {
    let text =
        "[experiment]\nname = \"x\"\n[workload]\nclients = 64\nthreads = [2, 16]\n[run]\nmeasure = \"5s\"\n";
    let mut experiment = crate::plan::file::parse("x", text, &[]).unwrap();
    fit_without(&mut experiment, &here(), &[]);
    assert_eq!(experiment.workload.clients.all(), [8]);
    assert_eq!(experiment.workload.threads.unwrap().all(), [2]);
    let text = "[experiment]\nname = \"x\"\nzip = [[\"clients\", \"threads\"]]\n[workload]\nclients = [256, 512]\n\
                threads = [256, 512]\n[run]\nmeasure = \"5s\"\n";
    let mut experiment = crate::plan::file::parse("x", text, &[]).unwrap();
    fit_without(&mut experiment, &here(), &[]);
    assert_eq!(experiment.workload.clients.all(), [256, 512], "there is time for both");
    assert_eq!(experiment.workload.threads.unwrap().all(), [256, 512]);
}

#[test]
fn what_varies_together_is_left_out_together() {
    let mut m5 = study("m5-metal");
    fit_without(&mut m5, &here(), &[]);
    assert_eq!(m5.workload.threads.as_ref().unwrap().all(), m5.workload.clients.all());
    assert_eq!(m5.experiment.zip.len(), 1);
    let mut clouds = study("five-clouds");
    places::bring_here(&mut clouds, &places::Lacks::default());
    fit_without(&mut clouds, &Limits { budget_s: 300.0, ..here() }, &[]);
    let sizes: Vec<u32> = clouds
        .target
        .iter()
        .map(|target| if target.size.as_deref() == Some("small") { 16 } else { 64 })
        .collect();
    assert!((1..24).contains(&sizes.len()));
    assert_eq!(clouds.workload.clients.all(), sizes);
}

#[test]
fn a_plan_that_fits_is_not_changed() {
    let text =
        "[experiment]\nname = \"x\"\n[workload]\nscale = 10\nclients = [1, 4]\n[run]\nmeasure = \"10s\"\n";
    let mut experiment = crate::plan::file::parse("x", text, &[]).unwrap();
    assert_eq!(fit(&mut experiment, &here()).changes, []);
}

#[test]
fn levels_are_thinned_evenly_with_both_ends() {
    let check = |n_levels: u32, n: usize, expected: &[u32]| {
        let mut levels = Levels::many((0..n_levels).collect()).unwrap();
        thin(&mut levels, n, |_| false);
        assert_eq!(levels.all(), expected);
    };
    check(10, 4, &[0, 3, 6, 9]);
    check(10, 2, &[0, 9]);
    check(10, 1, &[0]);
    check(7, 3, &[0, 3, 6]);
    check(2, 4, &[0, 1]);
}

#[test]
fn a_slow_machine_gets_shorter_runs_that_take_as_long() {
    let fitted_s = |speed: MachineSpeed| {
        let limits = Limits { speed, budget_s: 3600.0, ..here() };
        let (m5, _) = fitted("m5-metal", &limits);
        assert!(estimated(&m5, &limits).total_s() <= limits.budget_s);
        m5.run.measure.all()[0].ms
    };
    let slow = MachineSpeed::new(0.5);
    let usual = fitted_s(MachineSpeed::default());
    assert!(fitted_s(slow) < usual);
}

#[test]
fn several_lengths_of_the_measure_stay_several() {
    let text = "[experiment]\nname = \"x\"\nrepeats = 3\n[workload]\nscale = 1\nclients = [1, 2, 4, 8]\n[run]\nramp_up = \"0s\"\n\
                measure = [\"10min\", \"30min\"]\n[prepare]\nprewarm = [true, false]\n";
    let mut experiment = crate::plan::file::parse("x", text, &[]).unwrap();
    let changes = fit_without(&mut experiment, &here(), &[]);
    let lengths: Vec<String> = experiment.run.measure.all().iter().map(ToString::to_string).collect();
    assert_eq!(lengths, ["5s", "15s"], "{changes:?}");
    assert_eq!(experiment.prepare.prewarm.all(), [true, false]);
}

#[test]
fn a_search_keeps_the_time_that_it_needs() {
    let text = "[experiment]\nname = \"x\"\n[workload]\nscale = 1\nclients = [1, 2, 4, 8, 16]\n\
                pace = \"max with p99 <= 10ms\"\n[run]\nmeasure = \"10min\"\n";
    let mut experiment = crate::plan::file::parse("x", text, &[]).unwrap();
    fit_without(&mut experiment, &Limits { budget_s: 60.0, ..here() }, &[]);
    let site =
        crate::plan::expand::PlanResources { memory_bytes: Some(24 << 30), n_cpus: 2, ..Default::default() };
    assert!(crate::plan::expand::plan(&experiment, &site).is_ok(), "{:?}", experiment.run);
}

#[test]
fn a_policy_for_the_wal_keeps_the_ramp_up_that_it_needs() {
    let text = "[experiment]\nname = \"x\"\n[workload]\nscale = 1\nclients = [1, 2, 4, 8, 16]\n\
                [run]\nmeasure = \"10min\"\nwal = \"two-checkpoints\"\nextend = \"0s\"\n";
    let mut experiment = crate::plan::file::parse("x", text, &[]).unwrap();
    let changes = fit_without(&mut experiment, &Limits { budget_s: 60.0, ..here() }, &[]);
    assert!(experiment.run.ramp_up.all()[0].to_string() == "5s", "{:?}", experiment.run.ramp_up);
    assert!(
        changes.iter().any(|change| change.key == "run.repeat_disturbed" && change.to == "0"),
        "{changes:?}"
    );
}

#[test]
fn a_number_of_transactions_takes_as_long_as_such_transactions_do() {
    let estimated = |kind: &str, clients: u32| {
        let text = format!(
            "[experiment]\nname = \"x\"\nrepeats = 1\n[workload]\nkind = \"{kind}\"\nclients = {clients}\nscale = 10\ntransactions = 4500\n\
             [prepare]\nrestore = false\n[run]\nrepeat_disturbed = 0\n"
        );
        let experiment = crate::plan::file::parse("x", &text, &[]).unwrap();
        estimated(&experiment, &here()).total_s()
    };
    // 4,500 for each of 16 clients at 2 x 1,500 per second: 24 s. A client alone commits 500 per second: 9 s.
    assert_eq!((estimated("tpcb", 16) - estimated("tpcb", 1)).round(), 15.0);
    assert_eq!((estimated("tpcb", 32) - estimated("tpcb", 16)).round(), 24.0);
    assert!(estimated("tpcb-select", 16) < estimated("tpcb", 16) - 15.0);
}

/// Each level of a setting that decides what is stored has data of its own, which takes time and disk like that of another server.
#[test]
fn the_scale_counts_each_data_that_is_made() {
    for (set, n) in [
        ("workload.clients=[1, 4]", 1),
        ("server.version=[\"17\", \"18\"]", 2),
        ("server.settings.default_toast_compression=[\"pglz\", \"lz4\"]", 2),
        ("workload.partitions=[0, 4, 16, 64]", 4),
        ("workload.scale=[10, 20]", 1),
        ("server.settings.min_wal_size=[\"80MB\", \"160MB\"]", 1),
        ("server.settings.work_mem=[\"4MB\", \"8MB\"]", 1),
    ] {
        let text = "[experiment]\nname = \"x\"\n[workload]\nclients = 4\n";
        let experiment = crate::plan::file::parse("x", text, &[Override::parse(set).unwrap()]).unwrap();
        assert_eq!(super::estimate::n_loads(&experiment, &here()), n, "{set}");
    }
}

#[test]
fn the_reason_for_less_data_says_what_bounds_it() {
    let why = |limits: Limits| {
        let mut experiment = crate::plan::file::parse(
            "x",
            "experiment.name = \"x\"\n[server]\nversion = [\"14\", \"18\"]\n[workload]\nscale = 10000\nclients = 4\n",
            &[],
        )
        .expect("a sound experiment");
        let changes = fit(&mut experiment, &limits).changes;
        let of_scale = changes.into_iter().find(|change| change.key == "workload.scale");
        of_scale.map(|change| change.why).unwrap_or_default()
    };
    let small_disk = why(Limits { budget_s: 7200.0, free_bytes: 8 << 30, ..here() });
    assert!(
        small_disk.contains("storing it 2 times may take an eighth of the 8.00 GiB that are free"),
        "{small_disk}"
    );
    assert!(small_disk.starts_with("asked for are 1"), "{small_disk}");
    let little_time = why(Limits { budget_s: 60.0, free_bytes: 1 << 50, ..here() });
    assert!(little_time.contains("loading it 2 times may take 15 % of the time"), "{little_time}");
}
