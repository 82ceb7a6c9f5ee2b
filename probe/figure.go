package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
)

// Figure asks Prometheus at target, as http://127.0.0.1:9090, one instant query,
// whose answer must be one finite number. The context bounds how long it takes.
func Figure(ctx context.Context, target, query string) (float64, error) {
	b, err := compilePrometheus(Check{Kind: "prometheus", Target: target, Prometheus: &Prometheus{Query: query}}, Env{})
	if err != nil {
		return 0, err
	}
	p := b.(*prometheusProbe)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("User-Agent", "steadycast")
	resp, err := p.round.RoundTrip(req)
	if err != nil {
		return 0, fmt.Errorf("cannot ask Prometheus: %s", failed(err, target, "asking").Reason)
	}
	defer resp.Body.Close()
	text, err := readBounded(resp.Body, maxPrometheusBody)
	if err != nil {
		return 0, fmt.Errorf("cannot ask Prometheus: %s", failed(err, target, "reading").Reason)
	}
	values, err := instantVector(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("Prometheus at %s, status %d: %w", target, resp.StatusCode, err)
	case len(values) == 0:
		return 0, errors.New("the query gives no data")
	case len(values) > 1:
		return 0, fmt.Errorf("the query gives %d series; aggregate it to one", len(values))
	case math.IsNaN(values[0].value) || math.IsInf(values[0].value, 0):
		return 0, fmt.Errorf("the query gives %v", values[0].value)
	}
	return values[0].value, nil
}
