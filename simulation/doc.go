// Package simulation runs whole schedules of s3log on a simulated S3, in virtual
// time: a handful of processes that write, resume, fork, read, verify and remove
// the same logs, over a network that loses, delays, repeats and refuses. A
// schedule is drawn from a seed, and the same seed plays the same requests in
// the same order again, to the nanosecond. What must hold is checked while it
// runs, at every manifest that takes effect and at every answer that somebody
// gets, and again when the last late request has arrived; the answers alone are
// then given to porcupine, which knows nothing but what a log is.
//
// All of it is in the tests:
//
//	TestSchedules    plays seeds: 1,000; 10,000 with CI=true; 500 with -short or under
//	                 the race detector; 100,000 with S3LOG_LONG=1
//	TestReplay       plays S3LOG_SEED=n and prints its trace; S3LOG_WITHOUT=a,b
//	                 leaves out processes and faults, as the report of a failure
//	                 says that may be done
//	TestSameSeed     a seed is a schedule
//	TestMutants      breaks one rule of the code after the other, in a build of its
//	                 own, and demands that the schedules notice
package simulation
