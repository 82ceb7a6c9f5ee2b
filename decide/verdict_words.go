package decide

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/steadycast/steadycast"
)

// The words of a verdict: each transition gives its reason in one sentence.

// failing says what fails, how often and for how long:
// "connection refused ×3 in 0.4s; 2 of 3 voices fail (ams, fra)".
func (sv *service) failing(f facts) string {
	what := "failing"
	for _, v := range sv.heardFirst() {
		if v.last.Result.Outcome == steadycast.Down && v.last.Result.Reason != "" {
			what = v.last.Result.Reason
			break
		}
	}
	span := ""
	if f.failingFor > 0 {
		span = " in " + seconds(f.failingFor)
	}
	return fmt.Sprintf("%s ×%d%s%s", what, f.bad, span, sv.poll(steadycast.Down))
}

// passing says how often it passed.
func (sv *service) passing(f facts) string {
	return fmt.Sprintf("passed ×%d%s", f.good, sv.poll(steadycast.Up))
}

// poll says who is of that opinion, where there is more than one voice.
func (sv *service) poll(o steadycast.Outcome) string {
	if sv.jury.solo {
		return ""
	}
	var names []string
	for i, v := range sv.jury.all {
		if v.speaks() && v.last.Result.Outcome == o && (i != sv.jury.own || sv.jury.ownVotes) {
			names = append(names, v.name)
		}
	}
	n, verb := sv.tally.failing, "fail"
	if o == steadycast.Up {
		n, verb = sv.tally.passing, "pass"
	}
	return fmt.Sprintf("; %d of %d voices %s (%s)", n, sv.tally.voices, verb, strings.Join(names, ", "))
}

// lacking says what evidence is missing.
func (sv *service) lacking() string {
	own := sv.jury.self()
	switch {
	case !sv.jury.solo:
		return fmt.Sprintf("%d of %d voices are fresh, %d are needed", sv.tally.voices, sv.jury.assigned, sv.tally.least) + sv.jury.absent()
	case !own.heard:
		return "no check has run yet"
	case !own.fresh:
		return "no check was heard of for " + seconds(sv.jury.window)
	case own.last.Ineligible != "":
		return "the check is ineligible: " + own.last.Ineligible
	default:
		return "the check is inconclusive: " + own.last.Result.Reason
	}
}

// absent says who is heard and is no voice, and why.
func (j *jury) absent() string {
	var words []string
	for _, v := range j.all {
		if v.fresh && v.last.Ineligible != "" {
			words = append(words, v.name+": "+v.last.Ineligible)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return "; ineligible " + strings.Join(words, ", ")
}

// heardFirst are the vantages that speak, the site's own before the others.
func (sv *service) heardFirst() []*vantage {
	var vs []*vantage
	if own := sv.jury.self(); own.speaks() {
		vs = append(vs, own)
	}
	for i := range sv.jury.all {
		if v := &sv.jury.all[i]; v.speaks() && i != sv.jury.own {
			vs = append(vs, v)
		}
	}
	return vs
}

// seconds writes a duration as people say it: milliseconds below a tenth of a
// second, tenths below a minute, else whole seconds: 12ms, 0.4s, 5m0s.
func seconds(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Minute:
		return d.Round(time.Second).String()
	}
	tenths := int64((d + 50*time.Millisecond) / (100 * time.Millisecond))
	if tenths%10 == 0 {
		return strconv.FormatInt(tenths/10, 10) + "s"
	}
	return strconv.FormatInt(tenths/10, 10) + "." + strconv.FormatInt(tenths%10, 10) + "s"
}
