//! The command lines that lead to another machine or into a pod: ssh's options, and what a shell gets as one word.

use model::experiment::driver::DriverSpec;
use model::experiment::driver::inventory::PodsSection;

/// Options of ssh: never ask, notice a dead network, and share no connection, which could break while a load runs.
const SSH_OPTIONS: [&str; 6] = [
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=2",
    "-oServerAliveCountMax=3",
    "-oControlPath=none",
];

/// The words of the command that runs `pgdyno COMMAND` on a machine. A shell gets one word, everything else separate ones.
pub fn run_there(spec: &DriverSpec, command: &str) -> Vec<String> {
    let mut words = way(spec);
    if leads_to_a_shell(spec) {
        words.push(format!("exec {} {command}", spec.program));
    } else {
        words.extend([spec.program.clone(), command.to_string()]);
    }
    words
}

/// The words that run a script of the POSIX shell there instead. It is one line without `'` and `!`, which not every
/// login shell leaves alone between quotes.
pub(crate) fn script_there(spec: &DriverSpec, script: &str) -> Vec<String> {
    debug_assert!(!script.contains(['\n', '\'', '!']), "{script}");
    let mut words = way(spec);
    if leads_to_a_shell(spec) {
        words.push(format!("exec sh -c '{script}'"));
    } else {
        words.extend(["sh", "-c", script].map(str::to_string));
    }
    words
}

/// `via`, with ssh's options.
fn way(spec: &DriverSpec) -> Vec<String> {
    let mut words = spec.via.clone();
    if is_ssh(spec) {
        words.splice(1..1, SSH_OPTIONS.map(str::to_string));
    }
    words
}

/// Whether what follows `via` is parsed by a shell.
fn leads_to_a_shell(spec: &DriverSpec) -> bool {
    is_ssh(spec) || spec.via.last().is_some_and(|word| word == "-c")
}

fn is_ssh(spec: &DriverSpec) -> bool {
    spec.via.first().is_some_and(|word| word.rsplit('/').next() == Some("ssh"))
}

/// kubectl's options for cluster and namespace.
pub(crate) fn kubectl_options(pods: &PodsSection) -> Vec<String> {
    let option = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("--{name}={value}"));
    option("context", &pods.context).into_iter().chain(option("namespace", &pods.namespace)).collect()
}

/// The command that leads into a pod.
pub(crate) fn way_into_pod(pods: &PodsSection, pod: &str) -> Vec<String> {
    let mut words = vec!["kubectl".to_string()];
    words.extend(kubectl_options(pods));
    words.extend(["exec", "-i", pod].map(str::to_string));
    words.extend(pods.container.as_ref().map(|name| format!("--container={name}")));
    words.push("--".to_string());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(via: &[&str]) -> String {
        let via = via.iter().map(|word| word.to_string()).collect();
        let spec = DriverSpec { via, program: "/opt/pgdyno".into(), ..DriverSpec::default() };
        run_there(&spec, "drive").join(" ")
    }

    #[test]
    fn a_shell_gets_one_word_and_others_get_words() {
        assert_eq!(words(&["kubectl", "exec", "-i", "a", "--"]), "kubectl exec -i a -- /opt/pgdyno drive");
        let spec = DriverSpec { via: vec!["sh".into(), "-c".into()], ..DriverSpec::default() };
        assert_eq!(run_there(&spec, "watch").last().unwrap(), "exec  watch");
        let ssh: DriverSpec = "ssh:me@db1:2222=/opt/pgdyno".parse().unwrap();
        let words = run_there(&ssh, "drive");
        assert_eq!((words[0].as_str(), words[1].as_str()), ("ssh", "-T"));
        assert_eq!(words[7..], ["-p2222", "--", "me@db1", "exec /opt/pgdyno drive"]);
        assert_eq!(script_there(&ssh, "id; ls")[7..], ["-p2222", "--", "me@db1", "exec sh -c 'id; ls'"]);
        let pod: Vec<String> = ["docker", "exec", "-i", "c1"].map(str::to_string).into();
        let pod = DriverSpec { via: pod, ..DriverSpec::default() };
        assert_eq!(script_there(&pod, "id")[4..], ["sh", "-c", "id"]);
    }

    #[test]
    fn kubectl_is_given_the_namespace() {
        let pods = PodsSection {
            selector: "app=pgdyno".to_string(),
            namespace: Some("bench".to_string()),
            ..PodsSection::default()
        };
        assert_eq!(way_into_pod(&pods, "load-0").join(" "), "kubectl --namespace=bench exec -i load-0 --");
    }
}
