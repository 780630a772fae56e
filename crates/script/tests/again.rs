//! When a script that differs is played again.

use knee_queue::time::{Duration, Time};
use knee_script::{
    Call, Error, Given, Info, Limits, LinuxVersion, Profile, Refusal, Script, SimStack, Stack,
    play_again_if_late,
};
use knee_wire::Segment;

/// The simulator, of which something is not sure.
struct Unsure {
    inner: SimStack,
    lateness: Duration,
    leaves_out_calls: bool,
}

impl Stack for Unsure {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn linux(&self) -> LinuxVersion {
        self.inner.linux()
    }

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn call(&mut self, call: &Call) -> Result<Given, Refusal> {
        self.inner.call(call)
    }

    fn receive(&mut self, segment: &Segment) -> Result<(), Refusal> {
        self.inner.receive(segment)
    }

    fn next_segment(&mut self, until: Time) -> Result<Option<(Time, Segment)>, Refusal> {
        self.inner.next_segment(until)
    }

    fn info(&mut self) -> Result<Info, Refusal> {
        self.inner.info()
    }

    fn slack(&self) -> Duration {
        self.inner.slack()
    }

    fn lateness(&self) -> Duration {
        self.lateness
    }

    fn leaves_out_calls(&self) -> bool {
        self.leaves_out_calls
    }
}

/// How often a script is played that expects this window.
fn attempts(snd_cwnd_pkts: u32, lateness_us: u64, leaves_out_calls: bool) -> Result<u32, Error> {
    let text = format!("open active, rtt 1ms\nexpect cwnd == {snd_cwnd_pkts}\n");
    let script = Script::parse("again.script", &text)?;
    let profile = Profile { linux: LinuxVersion(6, 18), hz: 250 };
    let lateness = Duration::from_us(lateness_us);
    let settled = play_again_if_late(&script, Limits::default(), 4, &mut |settings| {
        let inner = SimStack::new(settings, profile)?;
        Ok(Box::new(Unsure { inner, lateness, leaves_out_calls }))
    });
    settled.map(|settled| settled.attempts)
}

#[test]
fn only_what_may_be_the_machines_or_the_kernels_doing_is_played_again() {
    let initial_pkts = 10;
    assert_eq!(attempts(initial_pkts, 5000, true).unwrap(), 1);
    assert_eq!(attempts(11, 0, false).unwrap(), 1);
    assert_eq!(attempts(11, 5000, false).unwrap(), 4);
    assert_eq!(attempts(11, 0, true).unwrap(), 4);
}
