"""Run recipes and factories on forked gloo ranks, in any interpreter that has torch."""
