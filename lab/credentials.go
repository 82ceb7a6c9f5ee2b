package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Credentials makes, with the product itself, what the nodes of a fleet prove
// themselves with, in dir, and names that for the topologies which are loaded
// from then on: they bind it from ${FLEET_PKI}. root is the folder of this package.
func Credentials(ctx context.Context, root, product, dir string) error {
	script, err := filepath.Abs(filepath.Join(root, "containerlab/configs/fleet/credentials"))
	if err != nil {
		return err
	}
	if product, err = filepath.Abs(product); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, script, dir)
	cmd.Env = append(os.Environ(), "STEADYCAST="+product)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making the fleet's credentials: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return os.Setenv("FLEET_PKI", dir)
}
