LOAD ducklake;
LOAD motherduck;
LOAD httpfs;
ATTACH 'md:';
CREATE OR REPLACE SECRET "my_bucket" IN MOTHERDUCK (TYPE r2, KEY_ID 'AKIA0', SECRET getenv('BUCKET_SECRET'), ACCOUNT_ID '0a1b', SCOPE 'r2://acme/');
CREATE DATABASE IF NOT EXISTS "shop_lake" (TYPE DUCKLAKE, DATA_PATH 'r2://acme/shop/');
USE "shop_lake";
